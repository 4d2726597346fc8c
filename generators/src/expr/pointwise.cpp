#include "expr/pointwise.hpp"

#include "expr/comparisons.hpp"
#include "expr/functions.hpp"
#include "expr/math.hpp"

#include <attune/ir/stores.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <stdexcept>

namespace attune::generators::inline expr {
using namespace Halide;

namespace {

Expr either(const Expr& a, const Expr& b) { return !a.defined() ? b : !b.defined() ? a : a || b; }
Expr both(const Expr& a, const Expr& b) { return a.defined() && b.defined() ? a && b : Expr(); }

/// The bits to shift by, at most 31.
Expr bits(const Expr& x) { return cast<uint32_t>(x) & cast<uint32_t>(31); }

/// Rounded toward zero; the nearest i32 for numbers beyond, 0 for NaN.
quantity as_integer(const quantity& x) {
    if (!x.value.type().is_float()) return {cast<int>(x.value), {}};
    const Expr value = cast<int>(clamp(x.value, -2147483648.0f, 2147483520.0f));
    const Expr bounded = select(holds_nan(x.value), 0, x.value >= 2147483648.0f, Int(32).max(), value);
    return {x.masked.defined() ? select(x.masked, Int(32).min(), bounded) : bounded, {}};
}

quantity larger(const quantity& a, const quantity& b) {
    if (!either(a.masked, b.masked).defined()) return {larger_of(a.value, b.value), {}};
    const Expr lowest = std::numeric_limits<float>::lowest();
    const Expr x = a.masked.defined() ? select(a.masked, lowest, a.value) : a.value;
    const Expr y = b.masked.defined() ? select(b.masked, lowest, b.value) : b.value;
    return {larger_of(x, y), a.masked.defined() && b.masked.defined() ? a.masked && b.masked : Expr()};
}

using of_two = Expr (*)(const Expr&, const Expr&);
constexpr of_two divided = nullptr;  // see pointwise::divide
/// If one argument is masked, so is the result; only the maximum then is the other one.
constexpr by_operation<family::arithmetic, of_two> of_arithmetic{
    {operation::negate, [](const Expr& a, const Expr&) { return -a; }},
    {operation::absolute, [](const Expr& a, const Expr&) { return cast(a.type(), abs(a)); }},
    {operation::add, [](const Expr& a, const Expr& b) { return a + b; }},
    {operation::subtract, [](const Expr& a, const Expr& b) { return a - b; }},
    {operation::multiply, [](const Expr& a, const Expr& b) { return a * b; }},
    {operation::divide, divided},
    {operation::remainder, remainder_down},
    {operation::minimum, smaller_of},
    {operation::maximum, larger_of}};
constexpr by_operation<family::bits, of_two> of_bits{
    {operation::bit_and, [](const Expr& a, const Expr& b) { return a & b; }},
    {operation::bit_or, [](const Expr& a, const Expr& b) { return a | b; }},
    {operation::bit_xor, [](const Expr& a, const Expr& b) { return a ^ b; }},
    {operation::shift_left, [](const Expr& a, const Expr& b) { return cast<int>(cast<uint32_t>(a) << bits(b)); }},
    {operation::shift_right, [](const Expr& a, const Expr& b) { return a >> bits(b); }}};

/// Whether the last eight bits of a result are decided by those of the arguments.
bool is_of_last_bits(operation op) {
    constexpr operation all[] = {operation::negate,  operation::add,    operation::subtract, operation::multiply,
                                 operation::bit_and, operation::bit_or, operation::bit_xor};
    return std::ranges::find(all, op) != std::end(all);
}

/// A number that is also masked if a condition holds (undefined: never).
quantity unless(const Expr& condition, const quantity& x) {
    if (!condition.defined()) return x;
    return {select(condition, 0.0f, x.value), either(x.masked, condition), x.nothing};
}

/// Whether a quotient of numbers is -infinity: that of a number other than 0 by a 0 of the other sign.
Expr is_below_all(const Expr& a, const Expr& b) {
    const auto bits = [](const Expr& x) { return reinterpret<std::uint32_t>(x); };
    const Expr zero = cast<std::uint32_t>(0), sign = Expr(std::uint32_t{0x80000000});
    return (bits(b) << 1) == zero && (bits(a) << 1) != zero && ((bits(a) ^ bits(b)) & sign) != zero && !holds_nan(a);
}

/// `where(c, s, -inf)` keeps s: only `masked` depends on the condition.
quantity choose(const quantity& condition, const quantity& x, const quantity& y) {
    const bool x_never_counts = x.masked.defined() && is_const_one(x.masked),
               y_never_counts = y.masked.defined() && is_const_one(y.masked);
    const Expr value = x_never_counts   ? y.value
                       : y_never_counts ? x.value
                                        : choose_whole(condition.value, x.value, y.value);
    if (!x.masked.defined() && !y.masked.defined()) return {value, {}};
    const Expr never = Internal::const_false();
    const Expr p = x.masked.defined() ? x.masked : never, q = y.masked.defined() ? y.masked : never;
    return {value, (condition.value && p) || (!condition.value && q)};
}

/// Whether a result is nothing: a product if a factor is, a sum if all terms are.
constexpr of_two first_of = [](const Expr& a, const Expr&) { return a; };
constexpr of_two neither = [](const Expr&, const Expr&) { return Expr(); };
constexpr by_operation<family::arithmetic, of_two> nothing_of{
    {operation::negate, first_of},   {operation::absolute, first_of}, {operation::add, both},
    {operation::subtract, both},     {operation::multiply, either},   {operation::divide, first_of},
    {operation::remainder, neither}, {operation::minimum, both},      {operation::maximum, both}};

/// Whether the branch that is taken is nothing.
Expr nothing_of_choice(const Expr& condition, const quantity& x, const quantity& y) {
    if (!x.nothing.defined()) return y.nothing.defined() ? !condition && y.nothing : Expr();
    return y.nothing.defined() ? select(condition, x.nothing, y.nothing) : condition && x.nothing;
}

quantity with_nothing(const quantity& x, const Expr& nothing) {
    if (!nothing.defined()) return x;
    return {select(nothing, 0.0f, x.value), x.masked, nothing};
}

[[noreturn]] void refuse() { throw std::runtime_error("a kernel cannot compute one of this graph's nodes"); }

}  // namespace

quantity pointwise::evaluate(int node, bool as_index) {
    if (const auto known = at_.known.find(node); known != at_.known.end()) return known->second;
    const std::pair key{node, as_index};
    if (const auto done = done_.find(key); done != done_.end()) return done->second;
    const quantity result = compute(request_.graph().nodes[node], as_index);
    done_.emplace(key, result);
    return result;
}

quantity made_of_pairs(const Expr& sum) {
    return {sum, {}, (reinterpret<std::uint32_t>(sum) << 1) == cast<std::uint32_t>(0)};
}

quantity pointwise::terminal(const instruction& node, bool as_index) {
    using value_of = Expr (*)(const pointwise&, const instruction&);
    constexpr value_of elsewhere = nullptr;  // below
    static constexpr by_operation<family::terminal, value_of> numbers{
        {operation::constant, elsewhere},
        {operation::input, elsewhere},
        {operation::q_idx, elsewhere},
        {operation::kv_idx, elsewhere},
        {operation::scalar, elsewhere},
        {operation::b, [](const pointwise& p, const instruction&) { return p.at_.b; }},
        {operation::h, [](const pointwise& p, const instruction&) { return p.at_.h; }},
        {operation::d_idx, [](const pointwise& p, const instruction&) { return p.at_.d; }},
        {operation::bound,
         [](const pointwise& p, const instruction& n) { return p.at_.indices.at(static_cast<int>(n.integer)); }},
        {operation::depth, [](const pointwise& p, const instruction&) { return Expr(p.request_.depths.depth); }},
        {operation::value_depth,
         [](const pointwise& p, const instruction&) { return Expr(p.request_.depths.value_depth); }},
        {operation::query_length,
         [](const pointwise& p, const instruction&) -> Expr { return p.inputs_.query_length; }},
        {operation::key_length, [](const pointwise& p, const instruction&) -> Expr { return p.inputs_.key_length; }},
        {operation::heads, [](const pointwise& p, const instruction&) -> Expr { return p.inputs_.heads; }},
        {operation::key_heads, [](const pointwise& p, const instruction&) -> Expr { return p.inputs_.key_heads; }},
        {operation::batches, [](const pointwise& p, const instruction&) -> Expr { return p.inputs_.batches; }},
        {operation::kv_lengths, [](const pointwise& p, const instruction&) { return p.inputs_.keys_in_use(p.at_.b); }}};
    if (const value_of number = numbers[node.op]) return {number(*this, node), {}};
    // Reads stay inside the tensors; a pair beyond the lengths is masked or not written.
    if (node.op == operation::q_idx) return {as_index ? clamp(at_.q, 0, inputs_.query_length - 1) : at_.q, {}};
    if (node.op == operation::kv_idx) return {as_index ? clamp(at_.k, 0, max(at_.key_limit, 1) - 1) : at_.k, {}};
    if (node.op == operation::scalar) {
        const Expr number = inputs_.scalar(node.input);
        return number.type().is_float() ? unless(is_negative_infinity(number), {number, {}}) : quantity{number, {}};
    }
    if (node.op != operation::constant) refuse();
    if (node.kind == kind::integer) return {static_cast<int>(node.integer), {}};
    if (node.kind == kind::condition) return {node.integer != 0 ? Internal::const_true() : Internal::const_false(), {}};
    if (std::isinf(node.number) && node.number < 0) return {0.0f, Internal::const_true()};
    if (node.number == 0 && keeps_nothing()) return {0.0f, {}, Internal::const_true()};
    // A finite number is a number, even where the nearest f32 is none.
    constexpr double most = std::numeric_limits<float>::max();
    return {static_cast<float>(std::isinf(node.number) ? node.number : std::clamp(node.number, -most, most)), {}};
}

quantity pointwise::divide(const instruction& node, const quantity& a, const quantity& b) {
    const Expr masked = either(a.masked, b.masked);
    if (a.value.type().is_int()) return {divide_down(a.value, b.value), {}};
    // Scores over one number of the task are multiplied by its inverse; conditions may ask for equality, so they
    // divide.
    const dependence &dividend = depends_[node.arguments[0]], &divisor = depends_[node.arguments[1]];
    const bool uniform = dividend.score && !divisor.query && !divisor.key && !divisor.score;
    if (!uniform)
        return unless(makes_infinity(node) ? is_below_all(a.value, b.value) : Expr(), {a.value / b.value, masked});
    const auto constant = as_const_float(b.value);  // folded here: a tanh looks for constant factors
    return {a.value * (constant && *constant != 0 ? Expr(1.0f / static_cast<float>(*constant)) : 1.0f / b.value),
            masked};
}

bool pointwise::makes_infinity(const instruction& node) const {
    return request_.facts->makes_infinity[number_of(node)];
}

/// Whether an integer may leave i32 and wrap around. Places that tensors are read at stay inside, and do not.
bool pointwise::wraps(const instruction& node, bool as_index) const {
    const bool is_exact = node.op == operation::negate || node.op == operation::add || node.op == operation::subtract ||
                          node.op == operation::multiply;
    return is_exact && !as_index && request_.facts->wraps.here[number_of(node)];
}

quantity pointwise::arithmetic(const instruction& node, const quantity& a, const quantity& b, bool as_index) {
    if (node.op == operation::maximum) return larger(a, b);
    if (wraps(node, as_index)) return {wrapped(node.op, a.value, b.value.defined() ? b.value : a.value), {}};
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const Expr nothing = keeps_nothing() ? nothing_of[node.op](a.nothing, b.nothing) : Expr();
    if (node.op == operation::divide) return with_nothing(divide(node, a, b), nothing);
    const Expr masked = either(a.masked, b.masked);
    if (node.op == operation::multiply && makes_infinity(node)) {  // a finite product below all f32 is a number
        const Expr product = product_as_it_is(a.value, b.value);
        const Expr is_of_infinity = is_exactly(a.value, infinity) || is_exactly(b.value, infinity);
        return with_nothing(unless(is_of_infinity && is_negative_infinity(product), {product, masked}), nothing);
    }
    const quantity result{of_arithmetic[node.op](a.value, b.value), masked};
    const bool taken = (node.op == operation::negate || node.op == operation::subtract) && makes_infinity(node);
    if (!taken) return with_nothing(result, nothing);
    Expr below_all = is_exactly(node.op == operation::negate ? a.value : b.value, infinity);
    // +infinity less +infinity is NaN. Of scores, which are products, that is left out: they would have to be looked
    // at.
    if (node.op == operation::subtract && node.kind == kind::real)
        below_all = below_all && !holds_nan(a.value) && !is_exactly(a.value, infinity);
    return with_nothing(unless(below_all, result), nothing);
}

/// Compilers move terms from one side of a comparison to the other, which must not overflow. Beside a number that is
/// small, one that may be large is as good as +-2^30. Two that may be large are compared as u32 of the same order.
void pointwise::guard(const instruction& node, quantity& a, quantity& b) const {
    constexpr double far = largest_int / 2;
    const graph_ir& graph = request_.graph();
    if (graph.nodes[node.arguments[0]].kind != kind::integer) return;
    const auto is = [&](int i) -> const instruction& { return graph.nodes[node.arguments[i]]; };
    std::array<double, 2> size{};
    for (const int i : {0, 1}) size[i] = request_.facts->magnitudes[node.arguments[i]];
    for (const int i : {0, 1}) {  // a constant beyond all values is as good as the next one to them
        const double next = size[1 - i] + 1;
        if (is(i).op != operation::constant || size[i] <= next || next >= far) continue;
        (i == 0 ? a : b).value = static_cast<int>(is(i).integer < 0 ? -next : next);
        size[i] = next;
    }
    if (node.op == operation::equal || node.op == operation::not_equal) {
        const auto is_far = [&](int i) { return is(i).op == operation::constant && size[i] > far; };
        if (!is_far(0) && !is_far(1)) return;
        a.value = as_ordered(a.value), b.value = as_ordered(b.value);
        return;
    }
    if (size[0] < far || size[1] < far) {
        const bool fits = size[0] + size[1] < largest_int;
        for (const auto& [side, i] : {std::pair(&a, 0), std::pair(&b, 1)})
            if (is_passed(is(i)) || (!fits && size[i] > far)) side->value = as_limit(side->value);
    } else if (!is_passed(is(0)) || !is_passed(is(1))) {
        a.value = as_ordered(a.value), b.value = as_ordered(b.value);
    }
}

quantity pointwise::reduce(const instruction& node, bool as_index) {
    const Expr extent = max(evaluate(node.arguments[1], false).value, 0);
    const int index = static_cast<int>(request_.graph().nodes[node.arguments[0]].integer);
    if ((depends_[node.arguments[2]].bound >> index & 1) == 0) {  // Halide would add it once
        const quantity x = evaluate(node.arguments[2], as_index);
        const Expr some = extent > 0;
        if (node.op == operation::any) return {x.value && some, {}};
        if (node.op == operation::largest) return {x.value, x.masked.defined() ? x.masked || !some : !some};
        if (x.value.type().is_int()) return {wrapped(operation::multiply, x.value, extent), {}};
        return {select(some, x.value * cast<float>(extent), 0.0f), x.masked.defined() ? x.masked && some : Expr()};
    }
    const RDom each(0, extent, "each_" + std::to_string(index));  // a name of its own: sums stand within sums
    place inside = at_;
    inside.indices[index] = each.x;
    if (is_precomputing()) inside.extents[index] = node.arguments[1];
    // Anew, as what was computed so far may have been for another index of this name.
    const quantity x = pointwise(request_, inputs_, depends_, std::move(inside)).evaluate(node.arguments[2], as_index);
    const auto for_any = [&](const Expr& condition) {
        return maximum(each, cast<uint8_t>(condition), "any") != cast<uint8_t>(0);
    };
    if (node.op == operation::any) return {for_any(x.value), {}};
    if (node.op == operation::largest) {
        const Expr none = cast<std::uint32_t>(0), order = in_order(x.value),
                   top = maximum(each, x.masked.defined() ? select(x.masked, none, order) : order, "largest");
        return {select(top == none, 0.0f, from_order(top)), top == none};
    }
    if (x.value.type().is_int()) return {cast<int>(Halide::sum(each, cast<uint32_t>(x.value), "sum")), {}};
    if (!x.masked.defined()) return {Halide::sum(each, x.value, "sum"), {}};
    return {Halide::sum(each, select(x.masked, 0.0f, x.value), "sum"), for_any(x.masked)};
}

/// Whether a pair is kept by its random word (random.hpp of the reference).
quantity pointwise::keep(const instruction& node) {
    const Expr p = evaluate(node.arguments[0], false).value, seed = evaluate(node.arguments[1], false).value,
               upper = evaluate(node.arguments[2], false).value;
    const instruction& probability = request_.graph().nodes[node.arguments[0]];
    const auto real = [](double x) { return Internal::make_const(Float(64), x); };
    const Expr exact = probability.op == operation::constant ? real(probability.number) : cast<double>(p);
    const Expr limit = cast<uint64_t>(floor(clamp(exact, real(0), real(1)) * real(4294967296) + real(0.5)));
    std::array<Expr, 4> drawn_for{at_.b, at_.h, at_.q, at_.k};
    for (std::size_t i = 0; i + 3 < node.argument_count; ++i)
        drawn_for[i] = evaluate(node.arguments[i + 3], false).value;
    const Expr word = philox(seed, upper, drawn_for[0], drawn_for[1], drawn_for[2], drawn_for[3]);
    return {word >= cast<uint32_t>(min(limit, cast<uint64_t>(Expr(0xffffffffu)))) &&
                limit <= cast<uint64_t>(Expr(0xffffffffu)),
            {}};
}

/// Whether a number is min(x, 0), as what a gradient's weights are the exponential of.
bool pointwise::is_at_most_zero(int number) const {
    const instruction& it = request_.graph().nodes[number];
    if (it.op != operation::minimum) return false;
    const instruction& limit = request_.graph().nodes[it.arguments[1]];
    return limit.op == operation::constant && limit.kind == kind::real && limit.number <= 0;
}

quantity pointwise::compute(const instruction& node, bool as_index) {
    const family of = family_of(node.op);
    if (of == family::terminal) return terminal(node, as_index);
    if (node.op == operation::load) return load(node);
    if (node.op == operation::extent) return extent_of(node);
    if (of == family::tensors) refuse();
    if (of == family::sums) return reduce(node, as_index);
    if (of == family::random) return keep(node);

    if (of == family::comparison)  // of integers that may wrap around, which places do not
        for (const int side : {0, 1}) as_index = as_index && !request_.facts->wraps.below[node.arguments[side]];
    quantity a = evaluate(node.arguments[0], as_index), b, c;
    if (node.argument_count > 1) b = evaluate(node.arguments[1], as_index);
    if (node.argument_count > 2) c = evaluate(node.arguments[2], as_index);
    switch (of) {
        case family::conversion:
            if (node.op != operation::to_real) return as_integer(a);
            if (const Expr real = real_of_packed(node); real.defined()) return {real, {}};
            return {cast<float>(a.value), a.masked};
        case family::arithmetic: return arithmetic(node, a, b, as_index);
        case family::function:
            return function_of_one(node.op, a,
                                   {.at_most_zero = is_at_most_zero(node.arguments[0]), .pole = makes_infinity(node)});
        case family::function_of_two: return function_of_two(node.op, a, b);
        case family::classification: return classified(node.op, a);
        case family::bits: return {of_bits[node.op](a.value, b.value), {}};
        case family::patterns: return element_of_bits(node, a.value);
        case family::selection: {
            if (node.op != operation::where) return a;
            quantity chosen = choose(a, b, c);
            if (keeps_nothing()) chosen.nothing = nothing_of_choice(a.value, b, c);
            return chosen;
        }
        case family::comparison: guard(node, a, b); return compare(node.op, a, b);
        case family::logic:
            if (node.op == operation::logical_not) return {!a.value, {}};
            return {node.op == operation::logical_and ? a.value && b.value : a.value || b.value, {}};
        case family::attention:
            if (node.op == operation::mask) return {a.value, a.masked.defined() ? a.masked || !b.value : !b.value};
            if (node.op == operation::as_row || node.op == operation::as_output || node.op == operation::in_u8 ||
                node.op == operation::in_i16)
                return a;
            refuse();
        case family::terminal:
        case family::tensors:
        case family::sums:
        case family::recurrent:
        case family::random: break;
    }
    refuse();
}

Expr pointwise::byte_of(int integer) {
    const instruction& node = request_.graph().nodes[integer];
    const auto argument = [&](int i) { return byte_of(node.arguments[i]); };
    const auto is_within = [&](int i, const integer_interval& range) {
        return integers_of(request_.graph().nodes, request_.graph().inputs, node.arguments[i]).is_within(range);
    };
    if (node.op == operation::constant) return Internal::make_const(UInt(8), node.integer & 255);
    if (!at_.known.contains(integer)) {
        if (node.op == operation::where) return select(condition_of_bytes(node.arguments[0]), argument(1), argument(2));
        if ((node.op == operation::maximum || node.op == operation::minimum) &&
            is_within(0, interval_of(element_type::i8)) && is_within(1, interval_of(element_type::i8))) {
            const Expr a = cast<std::int8_t>(argument(0)), b = cast<std::int8_t>(argument(1));
            return cast<std::uint8_t>(node.op == operation::maximum ? max(a, b) : min(a, b));
        }
        if (node.op == operation::shift_right && is_within(0, {0, 255}) && is_within(1, {0, 7}))  // zeros come in
            return argument(0) >> cast<std::uint8_t>(evaluate(node.arguments[1], false).value);
        if (node.op == operation::from_bits) return argument(0);  // the last eight of them
        if (is_of_last_bits(node.op)) {
            const Expr a = argument(0), b = node.argument_count > 1 ? argument(1) : a;
            return family_of(node.op) == family::bits ? of_bits[node.op](a, b) : of_arithmetic[node.op](a, b);
        }
    }
    const Expr value = evaluate(integer, false).value;
    const auto* widened = value.as<Internal::Cast>();  // an element of 8 bits, as it lies in memory
    return cast<std::uint8_t>(widened && widened->value.type().bits() == 8 ? widened->value : value);
}

}  // namespace attune::generators::inline expr
