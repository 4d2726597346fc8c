#include "expr/elementary.hpp"

#include "expr/math.hpp"

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace attune::generators::inline expr {
using namespace Halide;

namespace {

constexpr double pi = 3.14159265358979323846, log_of_2 = 0.69314718055994530942, most = 3.4028234663852886e38;

Expr word(std::uint32_t bits) { return Expr(bits); }
/// In f64, exactly.
Expr real(double x) { return Internal::make_const(Float(64), x); }
Expr bits_of(const Expr& x) { return reinterpret<std::uint32_t>(x); }
Expr magnitude_bits(const Expr& x) { return bits_of(x) & word(0x7fffffffu); }
Expr sign_bit(const Expr& x) { return bits_of(x) & word(0x80000000u); }
/// A value with the sign of another one, by bits: also that of a zero.
Expr signed_as(const Expr& value, const Expr& x) { return reinterpret<float>(bits_of(value) ^ sign_bit(x)); }
Expr bits_where(const Expr& condition, std::uint32_t bits, const Expr& value) {
    return reinterpret<float>(select(condition, word(bits), bits_of(value)));
}
Expr nan_where(const Expr& condition, const Expr& value) { return bits_where(condition, 0x7fc00000u, value); }
Expr rounded(const Expr& value) { return cast<float>(clamp(value, real(-most), real(most))); }

/// An f32 as f64, infinities as numbers beyond all others.
Expr widened(const Expr& x) { return clamp(cast<double>(x), real(-1e300), real(1e300)); }

Expr polynomial(const Expr& x, std::initializer_list<double> coefficients) {
    const std::vector<double> terms(coefficients);
    Expr sum = real(terms.back());
    for (auto term = terms.rbegin() + 1; term != terms.rend(); ++term) sum = sum * x + real(*term);
    return sum;
}

/// 2^x in f64, |x| < 1000.
Expr power_of_2(const Expr& x) {
    const Expr whole = round(x);
    const Expr scale = reinterpret<double>(cast<std::int64_t>(cast<int>(whole) + 1023) << cast<std::int64_t>(52));
    return scale * polynomial(x - whole, {0.9999999999595617, 0.6931471805568319, 0.24022651213498386,
                                          0.0555041090632735, 0.009618025613296754, 0.0013333478472582123,
                                          0.0001546972921861718, 1.5303700956149545e-05});
}
Expr exponential_of(const Expr& x) { return power_of_2(clamp(x, real(-500), real(500)) * real(1 / log_of_2)); }

/// A positive f64 as 2^exponent * part, the part from sqrt(1/2) to sqrt(2).
std::pair<Expr, Expr> parts_of(const Expr& x) {
    const Expr bits = reinterpret<std::int64_t>(x);
    const Expr exponent = (cast<int>(bits >> cast<std::int64_t>(32)) - 0x3fe6a09e) >> 20;
    return {cast<double>(exponent),
            reinterpret<double>(bits - (cast<std::int64_t>(exponent) << cast<std::int64_t>(52)))};
}
/// log((1 + s) / (1 - s)) of a small s.
Expr log_of_ratio(const Expr& s) {
    return s * polynomial(s * s, {1.9999999999999472, 0.666666666795941, 0.39999994884561807, 0.28572167110805774,
                                  0.2217420309669658, 0.19608845764238045});
}
/// log2 of a positive f64.
Expr logarithm_of(const Expr& x) {
    const auto [exponent, part] = parts_of(x);
    return exponent + log_of_ratio((part - real(1)) / (part + real(1))) * real(1 / log_of_2);
}

/// An angle in quarters of a turn: their number, modulo 4, and the rest, from -pi/4 to pi/4, in f64.
struct angle {
    Expr quarters, rest;
};
angle reduced(const Expr& x) {
    // x = m 2^(e - 150). Of 2/pi the 96 bits count whose products with m are neither multiples of 4 nor below 2^-62.
    constexpr std::uint32_t two_over_pi[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                             0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
    const Expr bits = magnitude_bits(x);
    const Expr m = (bits & word(0x7fffff)) | word(0x800000), from = max(cast<int>(bits >> 23) - 120, 0);
    const Expr first = from >> 5, by = cast<std::uint32_t>(from & 31);
    const auto word_at = [&](int i) {
        return mux(first, {word(two_over_pi[i]), word(two_over_pi[i + 1]), word(two_over_pi[i + 2]),
                           word(two_over_pi[i + 3]), word(two_over_pi[i + 4])});
    };
    const std::array<Expr, 4> words{word_at(0), word_at(1), word_at(2), word_at(3)};
    const auto window = [&](int i) {
        return cast<std::uint64_t>((words[i] << by) | ((words[i + 1] >> word(1)) >> (word(31) - by)));
    };
    const auto places = [](std::uint64_t n) { return Internal::make_const(UInt(64), n); };
    const Expr wide = cast<std::uint64_t>(m);
    const Expr turns = ((wide * window(0)) << places(32)) + wide * window(1) + ((wide * window(2)) >> places(32));
    const Expr quarters = (turns + places(std::uint64_t{1} << 61)) >> places(62);
    const Expr rest = reinterpret<std::int64_t>(turns - (quarters << places(62)));
    const Expr is_small = bits <= word(0x3f490fdb);  // pi/4
    return {select(is_small, 0, cast<int>(quarters) & 3),
            select(is_small, cast<double>(reinterpret<float>(bits)),
                   cast<double>(rest) * real(pi / 2 / 4611686018427387904.0))};
}
Expr sine_of_rest(const Expr& x) {
    return x * polynomial(x * x, {0.9999999999956714, -0.16666666631579952, 0.008333328781361856,
                                  -0.0001983920187974541, 2.7173426033599177e-06});
}
Expr cosine_of_rest(const Expr& x) {
    return polynomial(x * x, {0.9999999999999444, -0.49999999999351047, 0.04166666654389212, -0.0013888880392463514,
                              2.479892843832625e-05, -2.7173404951847065e-07});
}
/// The sine, `quarters` ahead of |x|.
Expr wave(const Expr& x, int quarters) {
    const auto [n, rest] = reduced(x);
    const Expr at = n + quarters;
    const Expr value = select((at & 1) != 0, cosine_of_rest(rest), sine_of_rest(rest));
    return cast<float>(select((at & 2) != 0, -value, value));
}
Expr has_no_angle(const Expr& x) { return magnitude_bits(x) >= word(0x7f800000u); }

/// The angle of the point (x, |y|) in f64, from 0 to pi.
Expr angle_of(const Expr& y, const Expr& x) {
    const Expr a = abs(y), c = abs(x), larger = max(a, c);
    const Expr ratio = min(a, c) / select(larger == real(0), real(1), larger);
    const Expr is_steep = ratio > real(0.41421356237309503);  // tan(pi/8)
    const Expr t = select(is_steep, (ratio - real(1)) / (ratio + real(1)), ratio);
    const Expr angle =
        t * polynomial(t * t, {0.9999999999783928, -0.33333332097324886, 0.19999883834648632, -0.14281588163800335,
                               0.1104048165907992, -0.08456149918597225, 0.04707257353409779}) +
        select(is_steep, real(pi / 4), real(0));
    const Expr upright = select(a > c, real(pi / 2) - angle, angle);
    return select(x < real(0), real(pi) - upright, upright);
}

}  // namespace

Expr holds_infinity(const Expr& x) { return magnitude_bits(x) == word(0x7f800000u); }

Expr exp2_of(const Expr& x) {
    return nan_where(holds_nan(x), rounded(power_of_2(clamp(cast<double>(x), real(-500), real(500)))));
}

Expr expm1_of(const Expr& x) {
    const Expr wide = widened(x);
    const Expr near = wide * polynomial(wide, {1.0, 0.5000000059197987, 0.1666666673241237, 0.04166630131272447,
                                               0.008333292755649582, 0.001394524024794129, 0.00019903862004345976});
    return nan_where(holds_nan(x), rounded(select(abs(wide) < real(0.36), near, exponential_of(wide) - real(1))));
}

Expr sinh_of(const Expr& x) {
    const Expr wide = abs(widened(x)), up = exponential_of(wide);
    const Expr near = wide * polynomial(wide * wide, {0.9999999998246601, 0.1666666853679956, 0.008333021787731458,
                                                      0.0002000723520995511});
    return nan_where(holds_nan(x),
                     signed_as(rounded(select(wide < real(0.54), near, (up - real(1) / up) * real(0.5))), x));
}

Expr cosh_of(const Expr& x) {
    const Expr up = exponential_of(abs(widened(x)));
    return nan_where(holds_nan(x), rounded((up + real(1) / up) * real(0.5)));
}

Expr log2_of(const Expr& x) {
    const Expr bits = bits_of(x), is_zero = magnitude_bits(x) == word(0);
    const Expr value =
        bits_where(holds_infinity(x), 0x7f800000u, cast<float>(logarithm_of(max(cast<double>(x), real(1e-300)))));
    return bits_where(is_zero, 0xff800000u, nan_where(holds_nan(x) || (sign_bit(x) != word(0) && !is_zero), value));
}

Expr log1p_of(const Expr& x) {
    const Expr wide = cast<double>(x),
               is_near = wide > real(-0.25) && wide < real(0.4);  // where 1 + x would be rounded
    const auto [exponent, part] = parts_of(max(wide + real(1), real(1e-300)));
    const Expr s = select(is_near, wide, part - real(1)) / select(is_near, wide + real(2), part + real(1));
    const Expr value = cast<float>(log_of_ratio(s) + select(is_near, real(0), exponent * real(log_of_2)));
    const Expr bits = bits_of(x), is_pole = bits == word(0xbf800000u);
    const Expr is_below = bits > word(0xbf800000u) || holds_nan(x);
    return bits_where(is_pole, 0xff800000u, nan_where(is_below, bits_where(holds_infinity(x), 0x7f800000u, value)));
}

Expr sin_of(const Expr& x) { return nan_where(has_no_angle(x), signed_as(wave(x, 0), x)); }
Expr cos_of(const Expr& x) { return nan_where(has_no_angle(x), wave(x, 1)); }
Expr tan_of(const Expr& x) {
    const auto [n, rest] = reduced(x);
    const Expr sine = sine_of_rest(rest), cosine = cosine_of_rest(rest), is_odd = (n & 1) != 0;
    const Expr value = select(is_odd, -cosine, sine) / select(is_odd, sine, cosine);
    return nan_where(has_no_angle(x), signed_as(rounded(value), x));
}

Expr asin_of(const Expr& x) {
    const Expr wide = clamp(cast<double>(x), real(-1), real(1));
    const Expr value = cast<float>(angle_of(wide, sqrt((real(1) - wide) * (real(1) + wide))));
    return nan_where(magnitude_bits(x) > word(0x3f800000u), signed_as(value, x));
}
Expr acos_of(const Expr& x) {
    const Expr wide = clamp(cast<double>(x), real(-1), real(1));
    return nan_where(magnitude_bits(x) > word(0x3f800000u),
                     cast<float>(angle_of(sqrt((real(1) - wide) * (real(1) + wide)), wide)));
}
Expr atan_of(const Expr& x) {
    return nan_where(holds_nan(x), signed_as(cast<float>(angle_of(widened(x), real(1))), x));
}
Expr atan2_of(const Expr& y, const Expr& x) {
    const Expr value = cast<float>(angle_of(widened(y), widened(x)));
    // If y = 0, the sign of a zero x decides, too.
    const Expr is_behind = magnitude_bits(y) == word(0) && sign_bit(x) != word(0);
    return nan_where(holds_nan(x) || holds_nan(y),
                     signed_as(select(is_behind, Expr(static_cast<float>(pi)), value), y));
}

Expr pow_of(const Expr& x, const Expr& y) {
    const Expr base = abs(widened(x)), exponent = widened(y);
    // For zero and for infinity every exponent other than 0 counts, however small.
    const Expr logarithm =
        select(base == real(0), real(-1e60), base >= real(1e300), real(1e60), logarithm_of(max(base, real(1e-300))));
    const Expr times = clamp(exponent, real(-1e30), real(1e30)) * logarithm;
    const Expr size = magnitude_bits(x), is_one = size == word(0x3f800000u);
    const Expr magnitude = rounded(power_of_2(select(is_one, real(0), clamp(times, real(-500), real(500)))));
    const Expr half = exponent * real(0.5);
    const Expr is_whole = exponent == floor(exponent), is_odd = is_whole && half != floor(half);
    const Expr is_negative = sign_bit(x) != word(0);
    const Expr value = reinterpret<float>(bits_of(magnitude) ^ select(is_negative && is_odd, sign_bit(x), word(0)));
    const Expr has_no_root = is_negative && !is_whole && size != word(0) && size != word(0x7f800000u);
    const Expr has_no_value = holds_nan(x) || holds_nan(y) || has_no_root;
    return bits_where(magnitude_bits(y) == word(0) || bits_of(x) == word(0x3f800000u), 0x3f800000u,
                      nan_where(has_no_value, value));
}

namespace {
/// The rest of x after multiples of y, both positive, less than 2^29 of them: their product is exact in f64.
Expr rest_of(const Expr& x, const Expr& y) {
    const Expr rest = x - floor(x / y) * y;
    return select(rest < real(0), rest + y, rest >= y, rest - y, rest);
}
}  // namespace

Expr fmod_of(const Expr& x, const Expr& y) {
    const Expr of = abs(widened(x)), by = abs(widened(y)), divisor = select(by == real(0), real(1), by);
    const Expr rest = rest_of(rest_of(of, divisor * real(67108864)), divisor);
    const Expr value = select(of < divisor * real(18014398509481984.0), rest, real(0));
    const Expr has_no_value = has_no_angle(x) || holds_nan(y) || magnitude_bits(y) == word(0);
    return nan_where(has_no_value, signed_as(cast<float>(value), x));
}

}  // namespace attune::generators::inline expr
