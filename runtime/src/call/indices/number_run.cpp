#include "call/indices/numbers.hpp"

#include <attune/ir/element.hpp>
#include <attune/ir/integer_operations.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <stdexcept>
#include <type_traits>

namespace attune::detail {
namespace {

constexpr variation_bits all_bound = ~(of_bound - 1);

bool holds_integers(const instruction& n) { return n.kind == kind::integer || n.kind == kind::condition; }
using integer = std::int32_t;

float greatest(float x, float y) { return std::isnan(x) || x >= y ? x : y; }

std::int32_t truncated(float x) {
    return std::isnan(x)
               ? 0
               : static_cast<std::int32_t>(std::clamp<double>(std::trunc(x), std::numeric_limits<std::int32_t>::min(),
                                                              std::numeric_limits<std::int32_t>::max()));
}

[[noreturn]] void only_in_kernels() { throw std::logic_error("attune: a number that only kernels can compute"); }

using number = number_run::number;
using values = number_run::values;
/// One operation for a run of positions.
using over_run = void (*)(std::span<number> to, const values& x, const values& y);

template <auto To, auto From, class F> constexpr over_run each_of(F) {
    return [](std::span<number> to, const values& x, const values& y) {
        for (int i = 0; number& each : to) {
            if constexpr (std::is_invocable_v<F, decltype(x[i].*From)>)
                each.*To = F{}(x[i].*From);
            else
                each.*To = F{}(x[i].*From, y[i].*From);
            ++i;
        }
    };
}
template <class F> constexpr over_run of_integers(F f) { return each_of<&number::integer, &number::integer>(f); }
template <class F> constexpr over_run of_reals(F f) { return each_of<&number::real, &number::real>(f); }
template <class F> constexpr over_run is_of_reals(F f) { return each_of<&number::integer, &number::real>(f); }

/// By the kinds of the arguments.
struct either {
    over_run integers, reals;
    constexpr over_run of(bool are_integers) const { return are_integers ? integers : reals; }
};
template <class F> constexpr either compared(F f) { return {of_integers(f), is_of_reals(f)}; }

/// An operation on integers; what it is, is known here, or it would be called for each position.
template <operation Op> constexpr over_run wraps() {
    return of_integers([](integer x, integer y) {
        constexpr exact_integers::of_two exact = exact_integers::of(Op);
        return wrapped_to_32_bits(exact(x, y));
    });
}

constexpr auto smaller = [](auto x, auto y) { return std::min(x, y); };
constexpr auto larger = [](auto x, auto y) { return std::max(x, y); };
constexpr by_operation<family::arithmetic, either> arithmetic{
    {operation::negate, {wraps<operation::negate>(), of_reals([](float x) { return -x; })}},
    {operation::absolute, {wraps<operation::absolute>(), of_reals([](float x) { return std::abs(x); })}},
    {operation::add, {wraps<operation::add>(), of_reals(std::plus<float>{})}},
    {operation::subtract, {wraps<operation::subtract>(), of_reals(std::minus<float>{})}},
    {operation::multiply, {wraps<operation::multiply>(), of_reals(std::multiplies<float>{})}},
    {operation::divide, {wraps<operation::divide>(), of_reals(std::divides<float>{})}},
    {operation::remainder,
     {wraps<operation::remainder>(), of_reals([](float) { return std::nanf(""); })}},  // of integers only
    {operation::minimum, {wraps<operation::minimum>(), of_reals(smaller)}},
    {operation::maximum, {wraps<operation::maximum>(), of_reals(larger)}}};

constexpr by_operation<family::bits, over_run> of_bits{{operation::bit_and, wraps<operation::bit_and>()},
                                                       {operation::bit_or, wraps<operation::bit_or>()},
                                                       {operation::bit_xor, wraps<operation::bit_xor>()},
                                                       {operation::shift_left, wraps<operation::shift_left>()},
                                                       {operation::shift_right, wraps<operation::shift_right>()}};

constexpr by_operation<family::comparison, either> comparisons{
    {operation::equal, compared(std::equal_to<>{})},  {operation::not_equal, compared(std::not_equal_to<>{})},
    {operation::less, compared(std::less<>{})},       {operation::less_equal, compared(std::less_equal<>{})},
    {operation::greater, compared(std::greater<>{})}, {operation::greater_equal, compared(std::greater_equal<>{})}};

constexpr by_operation<family::logic, over_run> of_logic{
    {operation::logical_and, of_integers(std::bit_and<integer>{})},
    {operation::logical_or, of_integers(std::bit_or<integer>{})},
    {operation::logical_not, of_integers([](integer x) { return x == 0; })}};

constexpr by_operation<family::function, over_run> functions{
    {operation::exp, of_reals([](float x) { return std::exp(x); })},
    {operation::log, of_reals([](float x) { return std::log(x); })},
    {operation::tanh, of_reals([](float x) { return std::tanh(x); })},
    {operation::erf, of_reals([](float x) { return std::erf(x); })},
    {operation::sqrt, of_reals([](float x) { return std::sqrt(x); })},
    {operation::rsqrt, of_reals([](float x) { return 1 / std::sqrt(x); })},
    {operation::sin, of_reals([](float x) { return std::sin(x); })},
    {operation::cos, of_reals([](float x) { return std::cos(x); })},
    {operation::tan, of_reals([](float x) { return std::tan(x); })},
    {operation::asin, of_reals([](float x) { return std::asin(x); })},
    {operation::acos, of_reals([](float x) { return std::acos(x); })},
    {operation::atan, of_reals([](float x) { return std::atan(x); })},
    {operation::sinh, of_reals([](float x) { return std::sinh(x); })},
    {operation::cosh, of_reals([](float x) { return std::cosh(x); })},
    {operation::exp2, of_reals([](float x) { return std::exp2(x); })},
    {operation::expm1, of_reals([](float x) { return std::expm1(x); })},
    {operation::log1p, of_reals([](float x) { return std::log1p(x); })},
    {operation::log2, of_reals([](float x) { return std::log2(x); })},
    {operation::sigmoid, of_reals([](float x) { return 1 / (1 + std::exp(-x)); })},
    {operation::floor, of_reals([](float x) { return std::floor(x); })},
    {operation::round, of_reals([](float x) { return std::nearbyint(x); })},
    {operation::trunc, of_reals([](float x) { return std::trunc(x); })},
    {operation::sign, of_reals([](float x) { return x > 0   ? 1.0f
                                                    : x < 0 ? -1.0f
                                                            : x; })}};
constexpr by_operation<family::function_of_two, over_run> functions_of_two{
    {operation::atan2, of_reals([](float y, float x) { return std::atan2(y, x); })},
    {operation::pow, of_reals([](float x, float y) { return std::pow(x, y); })},
    {operation::fmod, of_reals([](float x, float y) { return std::fmod(x, y); })}};

constexpr by_operation<family::classification, over_run> classes{
    {operation::is_nan, is_of_reals([](float x) { return std::isnan(x); })},
    {operation::is_infinite, is_of_reals([](float x) { return std::isinf(x); })}};

constexpr by_operation<family::conversion, either> conversions{
    {operation::to_real,
     {each_of<&number::real, &number::integer>([](integer x) { return static_cast<float>(x); }),
      of_reals([](float x) { return x; })}},
    {operation::to_integer,
     {of_integers([](integer x) { return x; }), is_of_reals([](float x) { return truncated(x); })}}};

}  // namespace

template <axis_kind Axis> void number_run::extent_along(number_run& run, node_id, values& to) {
    to.at[0].integer = static_cast<integer>(run.call_.shape[Axis]);
}

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

number_run::number_run(const call_numbers& call, node_span<variation_bits> varies, std::span<const node_id> order,
                       node_id quotient, std::byte* memory)
    : call_(call),
      varies_(varies),
      order_(order),
      quotient_(quotient),
      values_({reinterpret_cast<values*>(memory), call.graph.nodes.size()}) {
    auto* numbers = reinterpret_cast<number*>(memory + call.graph.nodes.size() * sizeof(values));
    for (const node_id each : order) {
        new (&values_[each]) values{new (numbers) number[longest], 0, false};
        numbers += longest;
    }
    bound_ = varies[order.back()] & all_bound;
}

void number_run::compute(const number_place& first, variation_bits counting, int count) {
    here_ = first, counting_ = counting, count_ = count;
    for (const node_id each : order_)
        if ((varies_[each] & all_bound & ~bound_) == 0) compute(each);  // the rest within sums
}

void number_run::compute(node_id at) {
    const instruction& n = call_.node(at);
    values& to = values_[at];
    to.step = (varies_[at] & counting_) != 0 ? 1 : 0, to.counts = false;
    if (at == quotient_ || n.op == operation::value_idx) {
        std::int32_t next = here_[at == quotient_ ? of_key : of_value_channel];
        for (number& each : room(to)) each.integer = next++;
        return void(to.counts = to.step != 0);
    }
    switch (family_of(n.op)) {
        case family::terminal: return terminal(at, to);
        case family::tensors:
            if (n.op == operation::load) return load(n, to);
            return void(to.at[0].integer = static_cast<integer>(call_.number(at)));  // an extent
        case family::sums: return reduce(at, to);
        case family::conversion:
        case family::arithmetic:
        case family::bits:
        case family::function:
        case family::function_of_two:
        case family::classification:
        case family::selection:
        case family::comparison:
        case family::logic:
        case family::patterns: return pointwise(n, to);
        case family::random:
        case family::attention:
        case family::recurrent: only_in_kernels();
    }
}

void number_run::terminal(node_id at, values& to) {
    using fill = void (*)(number_run&, node_id, values&);
    static constexpr fill position = [](number_run& r, node_id at, values& to) {
        const int first = r.here_[r.varies_[at]];
        for (int i = 0; number& each : r.room(to)) each.integer = first + i++;
        to.counts = to.step != 0;
    };
    static constexpr fill tensor = [](number_run&, node_id, values&) {};  // a tensor is no number
    static constexpr auto of_kind = [](kind is, float real, std::int64_t whole) {
        return is == kind::real ? number{.real = real} : number{.integer = static_cast<integer>(whole)};
    };
    static constexpr fill passed = [](number_run& r, node_id at, values& to) {
        const instruction& n = r.call_.node(at);
        const auto input = static_cast<std::size_t>(n.input);
        const scalar_value given = scalar_of(r.call_.graph.inputs[input], *r.call_.given.inputs[input]);
        to.at[0] = of_kind(n.kind, given.real, given.integer);
    };
    static constexpr fill constant = [](number_run& r, node_id at, values& to) {
        const instruction& n = r.call_.node(at);
        to.at[0] = of_kind(n.kind, static_cast<float>(n.number), n.integer);
    };
    static constexpr fill in_use = [](number_run& r, node_id, values& to) {
        for (int i = 0; number& each : r.room(to))
            each.integer = static_cast<integer>(r.call_.keys_in_use(r.here_[of_batch] + i++));
    };
    static constexpr by_operation<family::terminal, fill> numbers{
        {operation::constant, constant},
        {operation::b, position},
        {operation::h, position},
        {operation::q_idx, position},
        {operation::kv_idx, position},
        {operation::d_idx, position},
        {operation::bound, position},
        {operation::input, tensor},
        {operation::scalar, passed},
        {operation::kv_lengths, in_use},
        {operation::depth, extent_along<axis_kind::depth>},
        {operation::value_depth, extent_along<axis_kind::value_depth>},
        {operation::query_length, extent_along<axis_kind::query>},
        {operation::key_length, extent_along<axis_kind::key>},
        {operation::heads, extent_along<axis_kind::head>},
        {operation::key_heads, extent_along<axis_kind::key_head>},
        {operation::batches, extent_along<axis_kind::batch>}};
    numbers[call_.node(at).op](*this, at, to);
}

void number_run::load(const instruction& n, values& to) {
    const tensor& t = call_.read_by(n)->view;
    const auto elements = [&](auto word) {  // their bits; of 64 the lower half
        const auto take = [&, data = static_cast<const std::byte*>(t.data())](number& x, std::int64_t at) {
            std::memcpy(&word, data + at * static_cast<std::int64_t>(sizeof word), sizeof word);
            x.integer = wrapped_to_32_bits(word);
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
        for (number& each : room(to)) value(each);
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

void number_run::reduce(node_id at, values& to) {
    const instruction& n = call_.node(at);
    const variation_bits index = varies_[n.arguments[0]], outer = bound_;
    const node_id body = n.arguments[2];
    const std::int64_t extent = call_.number(n.arguments[1]);
    bound_ |= index;
    number none{.integer = 0};  // and the real 0
    if (n.op == operation::largest) none.real = -std::numeric_limits<float>::infinity();
    std::fill_n(to.at, to.step ? count_ : 1, none);
    for (std::int64_t each = 0; each < extent; ++each) {
        here_[index] = static_cast<std::int32_t>(each);
        for (const node_id within : order_) {
            const variation_bits varies = varies_[within];
            if (within >= at) break;
            if ((varies & index) != 0 && (varies & all_bound & ~bound_) == 0) compute(within);
        }
        const values& term = values_[body];
        for (int i = 0; i < (to.step ? count_ : 1); ++i) {
            if (n.op == operation::largest)
                to.at[i].real = greatest(to.at[i].real, term[i].real);
            else if (n.kind == kind::real)
                to.at[i].real += term[i].real;
            else if (n.op == operation::any)
                to.at[i].integer |= term[i].integer;
            else
                to.at[i].integer = wrapped_to_32_bits(std::int64_t{to.at[i].integer} + term[i].integer);
        }
    }
    bound_ = outer;
}

void number_run::pointwise(const instruction& n, values& to) {
    const values &x = values_[n.arguments[0]], &y = values_[n.arguments[n.argument_count > 1 ? 1 : 0]];
    const bool integers = holds_integers(call_.node(n.arguments[0]));
    const auto run = [&](over_run computes) { computes(room(to), x, y); };
    switch (family_of(n.op)) {
        case family::conversion: return run(conversions[n.op].of(integers));
        case family::arithmetic: return run(arithmetic[n.op].of(integers));
        case family::bits: return run(of_bits[n.op]);
        case family::function: return run(functions[n.op]);
        case family::function_of_two: return run(functions_of_two[n.op]);
        case family::classification: return run(classes[n.op]);
        case family::comparison: return run(comparisons[n.op].of(integers));
        case family::logic: return run(of_logic[n.op]);
        case family::patterns:
            for (int i = 0; number& each : room(to)) each = from_bits(n, x[i++].integer);
            return;
        case family::selection: {
            const bool chooses = n.op == operation::where;
            const values& z = values_[n.arguments[chooses ? 2 : 0]];  // of numbers that are the same, the first
            for (int i = 0; number& each : room(to)) each = chooses && x[i].integer != 0 ? y[i] : z[i], ++i;
            return;
        }
        case family::terminal:
        case family::tensors:
        case family::sums:
        case family::random:
        case family::attention:
        case family::recurrent: only_in_kernels();
    }
}

}  // namespace attune::detail
