#include "expr/math.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace attune::generators::inline expr {
using namespace Halide;

namespace {

/// One operation that is done as it stands, NaN and rounding included. (strict_float would take in its arguments.)
Expr strictly(Internal::Call::IntrinsicOp op, const Expr& a, const Expr& b) {
    const bool compares = op == Internal::Call::strict_lt || op == Internal::Call::strict_eq;
    const Type type = compares ? Bool() : a.type();
    return Internal::Call::make(type, op, {a, b}, Internal::Call::PureIntrinsic);
}

}  // namespace

Expr not_a_number_where(const Expr& condition, const Expr& x) {
    const Type bits = UInt(x.type().bits());
    const std::uint32_t nan = bits.bits() == 32 ? 0x7fc00000u : x.type().is_bfloat() ? 0x7fc0u : 0x7e00u;
    return reinterpret(x.type(), select(condition, Internal::make_const(bits, nan), reinterpret(bits, x)));
}

Expr perhaps_infinite(const Expr& x) {
    const auto* sum = x.as<Internal::Add>();
    return strictly(Internal::Call::strict_add, sum ? sum->a : x, sum ? sum->b : Expr(0.0f));
}

Expr holds_nan(const Expr& x) { return (reinterpret<std::uint32_t>(x) & Expr(0x7fffffffu)) > Expr(0x7f800000u); }

Expr at_least(const Expr& x, const Expr& limit) {
    if (is_const(x)) return Internal::simplify(max(x, limit));
    return select(strictly(Internal::Call::strict_lt, x, limit), limit, x);
}

Expr at_most(const Expr& x, const Expr& limit) {
    if (is_const(x)) return Internal::simplify(min(x, limit));
    return select(strictly(Internal::Call::strict_lt, limit, x), limit, x);
}

Expr larger_of(const Expr& a, const Expr& b) {
    if (!a.type().is_float()) return max(a, b);
    if (is_const(a)) return at_least(b, a);
    return is_const(b) ? at_least(a, b) : select(holds_nan(b), b, at_least(a, b));
}

Expr smaller_of(const Expr& a, const Expr& b) {
    if (!a.type().is_float()) return min(a, b);
    if (is_const(a)) return at_most(b, a);
    return is_const(b) ? at_most(a, b) : select(holds_nan(b), b, at_most(a, b));
}

namespace {

Expr compared(Internal::Call::IntrinsicOp strict, const Expr& a, const Expr& b, Expr (*plain)(Expr, Expr)) {
    if (!a.type().is_float() || (is_const(a) && is_const(b))) return plain(a, b);
    return strictly(strict, a, b);
}

}  // namespace

Expr is_less(const Expr& a, const Expr& b) {
    return compared(Internal::Call::strict_lt, a, b, [](Expr x, Expr y) { return x < y; });
}
/// For vectors Halide makes strict_le from strict_lt turned round, which is true for NaN.
Expr is_less_equal(const Expr& a, const Expr& b) {
    return a.type().is_float() ? is_less(a, b) || is_equal(a, b) : a <= b;
}
Expr is_equal(const Expr& a, const Expr& b) {
    return compared(Internal::Call::strict_eq, a, b, [](Expr x, Expr y) { return x == y; });
}

Expr product_as_it_is(const Expr& a, const Expr& b) { return strictly(Internal::Call::strict_mul, a, b); }
Expr difference_as_it_is(const Expr& a, const Expr& b) { return strictly(Internal::Call::strict_sub, a, b); }

Expr exp2_of_nonpositive(const Expr& x) {
    // At -127 the exponent field is 0: exactly zero, never a denormal number, which would slow down whatever it meets.
    const Expr y = at_least(x, -127.0f);
    // Beside 1.5 * 2^23 there is no room for a fraction: the sum is rounded, and its lowest bits are the integer.
    const Expr shift = 12582912.0f, shifted = strictly(Internal::Call::strict_add, y, shift),
               f = y - strictly(Internal::Call::strict_sub, shifted, shift);
    Expr p = 1.32647273e-3f;  // minimax on [-1/2, 1/2] with p(0) = 1
    p = p * f + 9.67151299e-3f;
    p = p * f + 5.55073358e-2f;
    p = p * f + 2.40222424e-1f;
    p = p * f + 6.93147004e-1f;
    p = p * f + 1.0f;
    return reinterpret<float>((reinterpret<int>(shifted) + 127) << 23) * p;
}

Expr exponential_of_nonpositive(const Expr& x) { return exp2_of_nonpositive(x * 1.44269504f); }

namespace {

/// A product without its constant factors, and their product. Only factors are looked for: simplifying all of x would
/// take time in proportion to its size with all shared parts written out.
std::pair<Expr, double> without_factor(const Expr& x) {
    Expr of = x;
    double factor = 1;
    while (true) {
        const auto* times = of.as<Internal::Mul>();
        const auto* over = of.as<Internal::Div>();
        const auto of_a = times ? as_const_float(times->a) : std::nullopt, of_b = times  ? as_const_float(times->b)
                                                                                  : over ? as_const_float(over->b)
                                                                                         : std::nullopt;
        if (!of_a && !of_b) break;
        factor = over ? factor / *of_b : factor * (of_b ? *of_b : *of_a);
        of = over ? over->a : of_b ? times->a : times->b;
    }
    const double size = std::abs(factor);
    return size > 1e-3 && size < 1e3 ? std::pair(of, factor) : std::pair(x, 1.0);
}

}  // namespace

Expr hyperbolic_tangent(const Expr& x) {
    // An odd rational function on the range where tanh is not yet 1 in f32: minimax of the relative error, 1.3e-7. Its
    // two polynomials are short, and of one length, as scores wait for all of their steps. A constant factor of x, such
    // as a scale over a cap, goes into the coefficients.
    constexpr double above[] = {0.999999869, 0.12934417, 0.00296047237, 1.15318262e-5},
                     below[] = {1, 0.462676436, 0.0238540787, 0.000240011897, 2.49254356e-7}, last = 7.9;
    const auto [of, factor] = without_factor(x);
    const float limit = static_cast<float>(last / std::abs(factor));
    const Expr y = at_most(at_least(of, -limit), limit), z = y * y;
    const auto polynomial = [&](const auto& coefficients, double scale) {
        std::vector<Expr> terms;
        for (const double c : coefficients) terms.emplace_back(static_cast<float>(c * scale)), scale *= factor * factor;
        Expr sum = terms.back();
        for (auto term = terms.rbegin() + 1; term != terms.rend(); ++term) sum = sum * z + *term;
        return sum;
    };
    return y * polynomial(above, factor) / polynomial(below, 1);
}

Expr hyperbolic_tangent_by_exp2(const Expr& x) {
    // 2 / (1 + e^-2x) - 1. Halves stand outside, where a factor of all scores takes them in.
    constexpr double log2_of_e = 1.44269504088896340736;
    const auto [of, factor] = without_factor(x);
    const auto approximately = [](const char* instruction, const Expr& a) {
        return Internal::Call::make(Float(32), instruction, {a}, Internal::Call::PureExtern);
    };
    const Expr power = approximately("llvm.nvvm.ex2.approx.ftz.f", of * static_cast<float>(-2 * log2_of_e * factor));
    return (approximately("llvm.nvvm.rcp.approx.ftz.f", 1.0f + power) - 0.5f) * 2.0f;
}

Expr error_function(const Expr& x) {
    // An odd rational function on the range where erf is not yet 1 in f32.
    const Expr y = at_most(at_least(x, -3.925f), 3.925f), z = y * y;
    Expr p = 2.046018545e-6f;  // minimax of the relative error
    p = p * z + 2.848453067e-4f;
    p = p * z + 3.772618798e-3f;
    p = p * z + 5.276951274e-2f;
    p = p * z + 1.905953212e-1f;
    p = p * z + 1.128379146f;
    Expr q = 3.804777556e-5f;
    q = q * z + 1.163874819e-3f;
    q = q * z + 1.498333597e-2f;
    q = q * z + 1.141833753e-1f;
    q = q * z + 5.022434357e-1f;
    q = q * z + 1.0f;
    return y * p / q;
}

Expr exponential(const Expr& x) { return select(holds_nan(x), x, exp(clamp(x, -104.0f, 88.7228f))); }

Expr natural_logarithm(const Expr& x) {
    const Expr not_finite = (reinterpret<std::uint32_t>(x) & Expr(0x7fffffffu)) >= Expr(0x7f800000u);
    return select(not_finite, x, log(x));  // Halide's logarithm of +infinity is 88.7
}

Expr real_of_bits(const Expr& byte, const Expr& shift, const Expr& mask, int offset) {
    // In 2^(23 - shift) the bit number `shift` is worth 1: no bit has to move.
    const Expr power = (cast<std::uint32_t>(127 + 23) - cast<std::uint32_t>(shift)) << 23,
               in_place = cast<std::uint32_t>(byte) & (mask << cast<std::uint32_t>(shift));
    return strictly(Internal::Call::strict_sub, reinterpret<float>(in_place | power),
                    reinterpret<float>(power) - static_cast<float>(offset));
}

Expr choose_whole(const Expr& condition, const Expr& a, const Expr& b) { return mux(select(condition, 0, 1), {a, b}); }

Expr stored_as(const Type& element, const Expr& x) {
    if (element == x.type() || !element.is_float() || element.bits() != 16) return cast(element, x);
    const auto word = [](std::uint32_t value) { return Expr(value); };
    const Expr bits = reinterpret<std::uint32_t>(x), magnitude = bits & word(0x7fffffff),
               nan = magnitude > word(0x7f800000);
    Expr result;
    if (element.is_bfloat()) {
        result = select(nan, (bits >> 16) | word(0x40), (bits + word(0x7fff) + ((bits >> 16) & word(1))) >> 16);
    } else {
        // Below 2^-14 an addition of 0.5 leaves the multiple of 2^-24 in the lowest bits, and rounds it.
        const Expr normal = (magnitude - word(0x38000000) + word(0xfff) + ((magnitude >> 13) & word(1))) >> 13;
        const Expr small =
            reinterpret<std::uint32_t>(reinterpret<float>(min(magnitude, word(0x38800000))) + 0.5f) - word(0x3f000000);
        const Expr half = select(nan, word(0x7e00), magnitude >= word(0x477ff000), word(0x7c00),
                                 magnitude >= word(0x38800000), normal, small);
        result = ((bits >> 16) & word(0x8000)) | half;
    }
    return reinterpret(element, cast<std::uint16_t>(result));
}

Expr rounded_by_instruction(const Type& element, const Expr& x) {
    const Expr pair = Internal::Call::make(UInt(32), element.is_bfloat() ? "attune_pack_bf16" : "attune_pack_f16",
                                           {x, Expr(0.0f)}, Internal::Call::PureExtern);
    return reinterpret(element, cast<std::uint16_t>(pair));
}

Expr from_f8(bool e4m3, const Expr& byte) {
    const Expr bits = cast<std::uint16_t>(byte);
    const auto half = [](const Expr& word) { return cast<float>(reinterpret(Float(16), word)); };
    if (!e4m3) return half(bits << cast<std::uint16_t>(8));
    // As an f16 with the same fields, whose exponents begin 8 lower.
    const auto word = [](int value) { return cast<std::uint16_t>(value); };
    const Expr magnitude = bits & word(0x7f), sign = (bits & word(0x80)) << word(8);
    return select(magnitude == word(0x7f), Expr(std::numeric_limits<float>::quiet_NaN()),
                  half((magnitude << word(7)) | sign) * 256.0f);
}

Expr to_f8(bool e4m3, const Expr& x) {
    const auto word = [](std::uint32_t value) { return Expr(value); };
    const auto power = [](int exponent) { return static_cast<std::uint32_t>(exponent + 127) << 23; };
    const int lowest = e4m3 ? -6 : -14, left_out = e4m3 ? 20 : 21;  // the least exponent; bits of an f32's fraction
    const std::uint32_t most = e4m3 ? 0x7e : 0x7b, beyond = e4m3 ? 0x7f : 0x7c, nan = e4m3 ? 0x7f : 0x7e;
    const Expr bits = reinterpret<std::uint32_t>(x), magnitude = bits & word(0x7fffffff),
               from_lowest = magnitude - word(power(lowest - 1));
    const Expr normal =
        (from_lowest + word((1u << (left_out - 1)) - 1) + ((from_lowest >> left_out) & word(1))) >> left_out;
    // Below that the addition leaves the multiple of the smallest number in the lowest bits, and rounds it.
    const std::uint32_t raised = power(lowest + left_out);
    const Expr small = reinterpret<std::uint32_t>(reinterpret<float>(min(magnitude, word(power(lowest)))) +
                                                  Expr(std::bit_cast<float>(raised))) -
                       word(raised);
    const Expr byte = select(magnitude > word(0x7f800000), word(nan),
                             magnitude<word(power(lowest)), small, normal> word(most), word(beyond), normal);
    return cast<std::uint8_t>(((bits >> 24) & word(0x80)) | byte);
}

Expr divide_down(const Expr& a, const Expr& b) {
    if (const auto divisor = as_const_int(b); divisor && *divisor > 0) return a / b;
    // The quotient of two i32 differs from an integer by at least 2^-31 of itself: f64 does not round it up to one.
    const Expr quotient = cast<int>(floor(cast<double>(a) / cast<double>(select(b == 0, 1, b))));
    return select(b == 0, 0, quotient);
}

Expr remainder_down(const Expr& a, const Expr& b) {
    if (const auto divisor = as_const_int(b); divisor && *divisor > 0) return a % b;
    return select(b == 0, 0, a - divide_down(a, b) * b);
}

Expr wrapped(attune::operation op, const Expr& a, const Expr& b) {
    const Expr x = reinterpret<std::uint32_t>(a), y = reinterpret<std::uint32_t>(b);
    const auto made = [&]() -> Expr {
        if (op == attune::operation::negate) return cast<std::uint32_t>(0) - x;
        return op == attune::operation::add ? x + y : op == attune::operation::subtract ? x - y : x * y;
    };
    return reinterpret<std::int32_t>(made());
}

Expr as_ordered(const Expr& x) { return reinterpret<std::uint32_t>(x) ^ Expr(std::uint32_t{0x80000000}); }

Expr as_limit(const Expr& x) { return x.type() == Int(32) ? clamp(x, -(1 << 30), 1 << 30) : x; }

Expr word_of(const Expr& first, const Expr& second) {
    const auto bits = [](const Expr& half) { return cast<std::uint32_t>(reinterpret<std::uint16_t>(half)); };
    return bits(first) | bits(second) << 16;
}

Expr half_of(const Expr& word, const Expr& which) {
    return reinterpret(BFloat(16), cast<std::uint16_t>(word >> cast<std::uint32_t>(16 * which)));
}

Expr is_exactly(const Expr& x, float number) {
    return reinterpret<std::uint32_t>(x) == Expr(std::bit_cast<std::uint32_t>(number));
}

Expr is_negative_infinity(const Expr& x) { return is_exactly(x, -std::numeric_limits<float>::infinity()); }

Expr or_negative_infinity(const Expr& condition, const Expr& a) {
    return reinterpret<float>(select(condition, reinterpret<uint32_t>(a), Expr(uint32_t(0xff800000u))));
}

Expr philox(const Expr& seed, const Expr& upper_half, const Expr& b, const Expr& h, const Expr& q, const Expr& k) {
    const auto word = [](const Expr& x) { return cast<uint32_t>(x); };
    // Every round is a set of lets: written out, each would double the expression.
    std::vector<std::pair<std::string, Expr>> lets;
    const auto named = [&](const Expr& value) {
        const std::string name = Internal::unique_name("philox");
        lets.emplace_back(name, value);
        return Internal::Variable::make(value.type(), name);
    };
    std::array<Expr, 4> c{word(k) / word(4), word(q), word(h), word(b)};
    for (Expr& each : c) each = named(each);
    for (std::uint32_t round = 0; round < 10; ++round) {
        const Expr x = named(cast<uint64_t>(c[0]) * cast<uint64_t>(Expr(0xd2511f53u))),
                   y = named(cast<uint64_t>(c[2]) * cast<uint64_t>(Expr(0xcd9e8d57u)));
        const Expr first = word(seed) + Expr(round * 0x9e3779b9u),
                   second = word(upper_half) + Expr(round * 0xbb67ae85u);
        c = {named(word(y >> 32) ^ c[1] ^ first), named(word(y)), named(word(x >> 32) ^ c[3] ^ second), named(word(x))};
    }
    Expr result = mux(cast<int>(word(k) % word(4)), {c[0], c[1], c[2], c[3]});
    for (auto let = lets.rbegin(); let != lets.rend(); ++let)
        result = Internal::Let::make(let->first, let->second, result);
    return result;
}

Expr in_order(const Expr& x) {
    const auto number = [](std::uint32_t n) { return cast<std::uint32_t>(Expr(n)); };
    const Expr bits = reinterpret<std::uint32_t>(x), magnitude = bits & number(0x7fffffff);
    return select(magnitude > number(0x7f800000), number(0xffffffff), bits == number(0xff800000), number(0),
                  magnitude == number(0), number(0x80000000), bits != magnitude, ~bits, bits | number(0x80000000));
}
Expr from_order(const Expr& number) {
    const Expr sign = cast<std::uint32_t>(Expr(std::uint32_t{0x80000000}));
    return reinterpret<float>(select(number == cast<std::uint32_t>(0),
                                     cast<std::uint32_t>(Expr(std::uint32_t{0xff800000})), number >= sign,
                                     number & ~sign, ~number));
}

}  // namespace attune::generators::inline expr
