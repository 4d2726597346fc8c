#include "call/numbers.hpp"

#include <attune/ir/element.hpp>
#include <attune/ir/operations.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

namespace attune::detail {
namespace {

constexpr variation_bits all_bound = ~(of_bound - 1);

bool holds_integers(const instruction& n) { return n.kind == kind::integer || n.kind == kind::condition; }

std::int32_t wrapped(std::uint32_t x) { return static_cast<std::int32_t>(x); }

std::int32_t integer_of(operation op, std::int32_t x, std::int32_t y) {
    const auto ux = static_cast<std::uint32_t>(x), uy = static_cast<std::uint32_t>(y);
    switch (op) {
        case operation::add: return wrapped(ux + uy);
        case operation::subtract: return wrapped(ux - uy);
        case operation::multiply: return wrapped(ux * uy);
        case operation::divide: return wrapped(static_cast<std::uint32_t>(quotient_of(x, y)));
        case operation::remainder: return static_cast<std::int32_t>(remainder_of(x, y));
        case operation::minimum: return std::min(x, y);
        case operation::maximum: return std::max(x, y);
        case operation::bit_and:
        case operation::logical_and: return x & y;
        case operation::bit_or:
        case operation::logical_or: return x | y;
        case operation::bit_xor: return x ^ y;
        case operation::shift_left: return wrapped(ux << (uy & 31));
        case operation::shift_right: return x >> (uy & 31);
        default: return x;  // same
    }
}

template <class T> bool compared(operation op, T x, T y) {
    switch (op) {
        case operation::equal: return x == y;
        case operation::not_equal: return x != y;
        case operation::less: return x < y;
        case operation::less_equal: return x <= y;
        case operation::greater: return x > y;
        default: return x >= y;
    }
}

constexpr by_operation<family::function, float (*)(float)> of_one{
    {operation::exp, [](float x) { return std::exp(x); }},
    {operation::log, [](float x) { return std::log(x); }},
    {operation::tanh, [](float x) { return std::tanh(x); }},
    {operation::erf, [](float x) { return std::erf(x); }},
    {operation::sqrt, [](float x) { return std::sqrt(x); }},
    {operation::rsqrt, [](float x) { return 1 / std::sqrt(x); }},
    {operation::sin, [](float x) { return std::sin(x); }},
    {operation::cos, [](float x) { return std::cos(x); }},
    {operation::tan, [](float x) { return std::tan(x); }},
    {operation::asin, [](float x) { return std::asin(x); }},
    {operation::acos, [](float x) { return std::acos(x); }},
    {operation::atan, [](float x) { return std::atan(x); }},
    {operation::sinh, [](float x) { return std::sinh(x); }},
    {operation::cosh, [](float x) { return std::cosh(x); }},
    {operation::exp2, [](float x) { return std::exp2(x); }},
    {operation::expm1, [](float x) { return std::expm1(x); }},
    {operation::log1p, [](float x) { return std::log1p(x); }},
    {operation::log2, [](float x) { return std::log2(x); }},
    {operation::sigmoid, [](float x) { return 1 / (1 + std::exp(-x)); }},
    {operation::floor, [](float x) { return std::floor(x); }},
    {operation::round, [](float x) { return std::nearbyint(x); }},
    {operation::trunc, [](float x) { return std::trunc(x); }},
    {operation::sign, [](float x) { return x > 0   ? 1.0f
                                           : x < 0 ? -1.0f
                                                   : x; }}};
constexpr by_operation<family::function_of_two, float (*)(float, float)> of_two{
    {operation::atan2, [](float y, float x) { return std::atan2(y, x); }},
    {operation::pow, [](float x, float y) { return std::pow(x, y); }},
    {operation::fmod, [](float x, float y) { return std::fmod(x, y); }}};

float real_of(operation op, float x, float y) {
    if (family_of(op) == family::function) return of_one[op](x);
    if (family_of(op) == family::function_of_two) return of_two[op](x, y);
    switch (op) {
        case operation::negate: return -x;
        case operation::absolute: return std::abs(x);
        case operation::add: return x + y;
        case operation::subtract: return x - y;
        case operation::multiply: return x * y;
        case operation::divide: return x / y;
        case operation::minimum: return std::min(x, y);
        default: return std::max(x, y);
    }
}

std::int32_t truncated(float x) {
    return std::isnan(x)
               ? 0
               : static_cast<std::int32_t>(std::clamp<double>(std::trunc(x), std::numeric_limits<std::int32_t>::min(),
                                                              std::numeric_limits<std::int32_t>::max()));
}

}  // namespace

std::int32_t& number_place::operator[](variation_bits variable) {
    switch (variable) {
        case of_batch: return at[0];
        case of_head: return at[1];
        case of_query: return at[2];
        case of_key: return at[3];
        case of_channel: return at[4];
        default: return at[5 + static_cast<std::size_t>(__builtin_ctz(variable / of_bound))];
    }
}

std::size_t number_run::bytes_for(std::size_t nodes, std::size_t ordered) {
    return nodes * sizeof(values) + ordered * longest * sizeof(number);
}

number_run::number_run(const call_numbers& call, std::span<const variation_bits> varies,
                       std::span<const std::int16_t> order, int quotient, std::byte* memory)
    : call_(call), varies_(varies), order_(order), quotient_(quotient), values_(reinterpret_cast<values*>(memory)) {
    auto* numbers = reinterpret_cast<number*>(memory + call.graph.nodes.size() * sizeof(values));
    for (const std::int16_t each : order) {
        new (values_ + each) values{new (numbers) number[longest], 0, false};
        numbers += longest;
    }
    bound_ = varies[static_cast<std::size_t>(order.back())] & all_bound;
}

void number_run::compute(const number_place& first, variation_bits counting, int count) {
    here_ = first, counting_ = counting, count_ = count;
    for (const std::int16_t each : order_)
        if ((varies_[static_cast<std::size_t>(each)] & all_bound & ~bound_) == 0)
            compute(each);  // the rest within sums
}

void number_run::compute(int at) {
    const instruction& n = call_.node(at);
    values& to = values_[at];
    to.step = (varies_[static_cast<std::size_t>(at)] & counting_) != 0 ? 1 : 0;
    to.counts = false;
    if (at == quotient_) {
        for (int i = 0; i < count_; ++i) to.at[i].integer = here_[of_key] + i;
        to.counts = true;
    } else if (n.op == operation::load)
        load(n, to);
    else if (n.op == operation::sum || n.op == operation::any)
        reduce(at, to);
    else if (n.argument_count == 0 || n.op == operation::extent)
        terminal(n, to);
    else
        pointwise(n, to);
}

void number_run::terminal(const instruction& n, values& to) {
    const auto variable = [&](variation_bits of) {
        for (int i = 0; i < (to.step ? count_ : 1); ++i) to.at[i].integer = here_[of] + i;
        to.counts = to.step != 0;
    };
    const auto number = [&](std::int64_t x) { to.at[0].integer = static_cast<std::int32_t>(x); };
    const call_shape& shape = call_.shape;
    switch (n.op) {
        case operation::b: return variable(of_batch);
        case operation::h: return variable(of_head);
        case operation::q_idx: return variable(of_query);
        case operation::kv_idx: return variable(of_key);
        case operation::d_idx: return variable(of_channel);
        case operation::bound: return variable(of_bound_index(n.integer));
        case operation::kv_lengths:
            for (int i = 0; i < (to.step ? count_ : 1); ++i)
                to.at[i].integer = static_cast<std::int32_t>(call_.keys_in_use(here_[of_batch] + i));
            return;
        case operation::constant:
            if (n.kind == kind::real)
                to.at[0].real = static_cast<float>(n.number);
            else
                number(n.integer);
            return;
        case operation::scalar: {
            const auto input = static_cast<std::size_t>(n.input);
            const scalar_value given = scalar_of(call_.graph.inputs[input], *call_.given.inputs[input]);
            if (n.kind == kind::real)
                to.at[0].real = given.real;
            else
                number(given.integer);
            return;
        }
        case operation::depth: return number(shape[axis_kind::depth]);
        case operation::value_depth: return number(shape[axis_kind::value_depth]);
        case operation::query_length: return number(shape[axis_kind::query]);
        case operation::key_length: return number(shape[axis_kind::key]);
        case operation::heads: return number(shape[axis_kind::head]);
        case operation::key_heads: return number(shape[axis_kind::key_head]);
        case operation::batches: return number(shape[axis_kind::batch]);
        default: return number(call_.number(static_cast<int>(&n - call_.graph.nodes.data())));
    }
}

void number_run::load(const instruction& n, values& to) {
    const tensor& t = call_.read_by(n)->view;
    const auto elements = [&](auto word) {  // their bits; of 64 the lower half
        const auto take = [&, data = static_cast<const std::byte*>(t.data())](number& x, std::int64_t at) {
            std::memcpy(&word, data + at * static_cast<std::int64_t>(sizeof word), sizeof word);
            x.integer = wrapped(static_cast<std::uint32_t>(word));
        };
        const auto rank = static_cast<std::size_t>(t.rank());
        std::int64_t fixed = 0, stride = 0;
        std::array<std::size_t, max_rank> varying{};
        std::size_t count = 0;
        for (std::size_t axis = 0; axis < rank; ++axis) {
            const std::int64_t own = t.extent(static_cast<int>(axis));
            const values& index = values_[n.arguments[axis + 1]];
            if (own == 1) continue;
            if (index.step != 0) {
                varying[count++] = axis;
                continue;
            }
            std::int64_t at = index[0].integer;
            if (call_.along(n, axis) == axis_kind::key_head && call_.node(n.arguments[axis + 1]).op == operation::h)
                at = call_.key_head(at);
            fixed += std::clamp<std::int64_t>(at, 0, own - 1) * t.stride(static_cast<int>(axis));
        }
        const int last = to.step ? count_ - 1 : 0;
        if (count == 1) {  // neighbours in a tensor, as the entries of a page table
            const values& index = values_[n.arguments[varying[0] + 1]];
            const int axis = static_cast<int>(varying[0]);
            if (index.counts && index[0].integer >= 0 && index[last].integer < t.extent(axis)) {
                fixed += index[0].integer * t.stride(axis), stride = t.stride(axis);
                for (int i = 0; i <= last; ++i) take(to.at[i], fixed + i * stride);
                return;
            }
        }
        for (int i = 0; i <= last; ++i) {
            std::int64_t at = fixed;
            for (std::size_t v = 0; v < count; ++v) {
                const int axis = static_cast<int>(varying[v]);
                at += std::clamp<std::int64_t>(values_[n.arguments[varying[v] + 1]][i].integer, 0, t.extent(axis) - 1) *
                      t.stride(axis);
            }
            take(to.at[i], at);
        }
    };
    const auto convert = [&](auto value) {
        for (int i = 0; i < (to.step ? count_ : 1); ++i) value(to.at[i]);
    };
    const auto real = [&](auto small) {  // whose bits they are
        convert([&](number& x) {
            small.bits = static_cast<decltype(small.bits)>(x.integer);
            x.real = static_cast<float>(small);
        });
    };
    if (t.empty()) return convert([](number& x) { x.integer = 0; });
    switch (attune::bytes_of(t.type())) {
        case 1: elements(std::uint8_t{}); break;
        case 2: elements(std::uint16_t{}); break;
        case 4: elements(std::uint32_t{}); break;
        default: elements(std::uint64_t{});
    }
    switch (t.type()) {
        case element_type::i8: convert([](number& x) { x.integer = static_cast<std::int8_t>(x.integer); }); break;
        case element_type::i16: convert([](number& x) { x.integer = static_cast<std::int16_t>(x.integer); }); break;
        case element_type::bf16: real(bfloat16{}); break;
        case element_type::f16: real(float16{}); break;
        case element_type::f8_e4m3: real(float8_e4m3{}); break;
        case element_type::f8_e5m2: real(float8_e5m2{}); break;
        default: break;
    }
    const bool integers = is_integer(t.type()) || t.type() == element_type::boolean;
    if (n.kind == kind::condition)
        convert([&](number& x) { x.integer = integers ? x.integer != 0 : x.real != 0; });
    else if (n.kind != kind::integer && integers)
        convert([](number& x) { x.real = static_cast<float>(x.integer); });
}

void number_run::reduce(int at, values& to) {
    const instruction& n = call_.node(at);
    const variation_bits index = varies_[static_cast<std::size_t>(n.arguments[0])], outer = bound_;
    const int body = n.arguments[2];
    const std::int64_t extent = call_.number(n.arguments[1]);
    bound_ |= index;
    for (int i = 0; i < (to.step ? count_ : 1); ++i) to.at[i].integer = 0;  // and the real 0
    for (std::int64_t each = 0; each < extent; ++each) {
        here_[index] = static_cast<std::int32_t>(each);
        for (const std::int16_t within : order_) {
            const variation_bits varies = varies_[static_cast<std::size_t>(within)];
            if (within >= at) break;
            if ((varies & index) != 0 && (varies & all_bound & ~bound_) == 0) compute(within);
        }
        const values& term = values_[body];
        for (int i = 0; i < (to.step ? count_ : 1); ++i) {
            if (n.kind == kind::real)
                to.at[i].real += term[i].real;
            else
                to.at[i].integer = integer_of(n.op == operation::any ? operation::logical_or : operation::add,
                                              to.at[i].integer, term[i].integer);
        }
    }
    bound_ = outer;
}

void number_run::pointwise(const instruction& n, values& to) {
    const values &x = values_[n.arguments[0]], &y = values_[n.arguments[n.argument_count > 1 ? 1 : 0]];
    const bool integers = holds_integers(call_.node(n.arguments[0]));
    const auto each = [&](auto value) {
        for (int i = 0; i < (to.step ? count_ : 1); ++i) value(i);
    };
    switch (n.op) {
        case operation::to_real:
            return each([&](int i) { to.at[i].real = integers ? static_cast<float>(x[i].integer) : x[i].real; });
        case operation::to_integer:
            return each([&](int i) { to.at[i].integer = integers ? x[i].integer : truncated(x[i].real); });
        case operation::is_nan: return each([&](int i) { to.at[i].integer = std::isnan(x[i].real); });
        case operation::is_infinite: return each([&](int i) { to.at[i].integer = std::isinf(x[i].real); });
        case operation::logical_not: return each([&](int i) { to.at[i].integer = x[i].integer == 0; });
        case operation::where: {
            const values& z = values_[n.arguments[2]];
            return each([&](int i) { to.at[i] = x[i].integer != 0 ? y[i] : z[i]; });
        }
        case operation::equal:
        case operation::not_equal:
        case operation::less:
        case operation::less_equal:
        case operation::greater:
        case operation::greater_equal:
            return each([&](int i) {
                to.at[i].integer =
                    integers ? compared(n.op, x[i].integer, y[i].integer) : compared(n.op, x[i].real, y[i].real);
            });
        default: break;
    }
    if (!integers) return each([&](int i) { to.at[i].real = real_of(n.op, x[i].real, y[i].real); });
    if (n.op == operation::negate || n.op == operation::absolute)
        return each([&](int i) {
            const std::int32_t value = x[i].integer;
            to.at[i].integer =
                n.op == operation::absolute && value >= 0 ? value : wrapped(0u - static_cast<std::uint32_t>(value));
        });
    each([&](int i) { to.at[i].integer = integer_of(n.op, x[i].integer, y[i].integer); });
}

}  // namespace attune::detail
