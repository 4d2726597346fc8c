#pragma once
#include <attune/ir/operations.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <span>

/// What a graph stores: which tensors, over which positions, along which channels.
namespace attune {

/// The input that a store writes to.
constexpr std::int16_t tensor_of(std::span<const instruction> nodes, const store_declaration& store) {
    const instruction& place = nodes[static_cast<std::size_t>(store.element)];
    return nodes[static_cast<std::size_t>(place.arguments[0])].input;
}

constexpr bool is_stored(const graph_ir& graph, std::size_t input) {
    return std::ranges::any_of(graph.stores, [&](const store_declaration& each) {
        return static_cast<std::size_t>(tensor_of(graph.nodes, each)) == input;
    });
}

/// The inputs that a graph stores to, in the order of their first stores: calls `visit` with the number of each.
template <class Visit> constexpr void each_stored(const graph_ir& graph, Visit visit) {
    for (std::size_t i = 0; i < graph.stores.size(); ++i) {
        const std::int16_t input = tensor_of(graph.nodes, graph.stores[i]);
        const auto before = graph.stores.first(i);
        if (std::ranges::none_of(before, [&](const auto& each) { return tensor_of(graph.nodes, each) == input; }))
            visit(static_cast<std::size_t>(input));
    }
}

/// The axis of a store's tensor that its channels run over, the one at which its place has d_idx; -1 if there is none.
constexpr int channel_axis(std::span<const instruction> nodes, const store_declaration& store) {
    const instruction& place = nodes[static_cast<std::size_t>(store.element)];
    for (int axis = 0; axis + 1 < place.argument_count; ++axis) {
        const auto index = static_cast<std::size_t>(place.arguments[static_cast<std::size_t>(axis) + 1]);
        if (nodes[index].op == operation::d_idx) return axis;
    }
    return -1;
}

/// The integers that a node may be, both inclusive; of what nothing is known those of 32 bits.
struct integer_range {
    std::int64_t lowest{std::numeric_limits<std::int32_t>::min()}, highest{std::numeric_limits<std::int32_t>::max()};
    constexpr bool is_within(const integer_range& other) const {
        return lowest >= other.lowest && highest <= other.highest;
    }
};

constexpr integer_range range_of(element_type element) {
    switch (element) {
        case element_type::i8: return {-128, 127};
        case element_type::u8: return {0, 255};
        case element_type::i16: return {-32768, 32767};
        default: return {};
    }
}

namespace detail {

constexpr integer_range joined(const integer_range& x, const integer_range& y) {
    return {std::min(x.lowest, y.lowest), std::max(x.highest, y.highest)};
}

/// Between the least and the greatest; unknown where kernels could wrap around.
constexpr integer_range around(std::initializer_list<std::int64_t> ends) {
    const integer_range made{std::min(ends), std::max(ends)};
    return made.is_within({}) ? made : integer_range{};
}
template <class F> constexpr integer_range of_ends(const integer_range& x, const integer_range& y, F f) {
    return around({f(x.lowest, y.lowest), f(x.lowest, y.highest), f(x.highest, y.lowest), f(x.highest, y.highest)});
}

/// Of operations of one, the second is the first again.
using range_of_two = integer_range (*)(const integer_range&, const integer_range&);
inline constexpr range_of_two unknown_integers = [](const integer_range&, const integer_range&) {
    return integer_range{};
};
inline constexpr by_operation<family::arithmetic, range_of_two> ranges_of_arithmetic{
    {operation::negate, [](const integer_range& x, const integer_range&) { return around({-x.lowest, -x.highest}); }},
    {operation::absolute, unknown_integers},
    {operation::add, [](const integer_range& x, const integer_range& y) { return of_ends(x, y, std::plus<>{}); }},
    {operation::subtract, [](const integer_range& x, const integer_range& y) { return of_ends(x, y, std::minus<>{}); }},
    {operation::multiply,
     [](const integer_range& x, const integer_range& y) { return of_ends(x, y, std::multiplies<>{}); }},
    {operation::divide, unknown_integers},
    {operation::remainder,
     [](const integer_range&, const integer_range& y) {
         return y.lowest < 1 ? integer_range{} : integer_range{0, y.highest - 1};
     }},
    {operation::minimum,
     [](const integer_range& x, const integer_range& y) {
         return integer_range{std::min(x.lowest, y.lowest), std::min(x.highest, y.highest)};
     }},
    {operation::maximum, [](const integer_range& x, const integer_range& y) {
         return integer_range{std::max(x.lowest, y.lowest), std::max(x.highest, y.highest)};
     }}};

/// All bits below the highest one of either.
inline constexpr range_of_two below_both_highest_bits = [](const integer_range& x, const integer_range& y) {
    if (x.lowest < 0 || y.lowest < 0) return integer_range{};
    std::int64_t bits = 1;
    while (bits <= std::max(x.highest, y.highest)) bits *= 2;
    return integer_range{0, bits - 1};
};
inline constexpr by_operation<family::bits, range_of_two> ranges_of_bits{
    {operation::bit_and,
     [](const integer_range& x, const integer_range& y) {
         if (x.lowest < 0 && y.lowest < 0) return integer_range{};
         return integer_range{0, x.lowest < 0 ? y.highest : y.lowest < 0 ? x.highest : std::min(x.highest, y.highest)};
     }},
    {operation::bit_or, below_both_highest_bits},
    {operation::bit_xor, below_both_highest_bits},
    {operation::shift_left,
     [](const integer_range& x, const integer_range& by) {
         if (by.lowest < 0 || by.highest > 31) return integer_range{};
         return of_ends(x, by, [](std::int64_t number, std::int64_t to) { return number * (std::int64_t{1} << to); });
     }},
    {operation::shift_right, [](const integer_range& x, const integer_range& by) {
         if (by.lowest < 0 || by.highest > 31) return integer_range{};
         return of_ends(x, by, [](std::int64_t number, std::int64_t to) { return number >> to; });
     }}};

}  // namespace detail

/// From the formula alone, as limits that a formula states: clamp(x, -127, 127), x & 15.
constexpr integer_range integers_of(std::span<const instruction> nodes, std::span<const input_declaration> inputs,
                                    std::int16_t node) {
    const instruction& n = nodes[static_cast<std::size_t>(node)];
    const auto argument = [&](std::size_t i) { return nodes[static_cast<std::size_t>(n.arguments[i])]; };
    const auto of = [&](std::size_t i) { return integers_of(nodes, inputs, n.arguments[i]); };
    const std::size_t second = n.argument_count > 1 ? 1 : 0;
    if (n.kind == kind::condition) return {0, 1};
    if (n.op == operation::constant) return {n.integer, n.integer};
    if (n.op == operation::where) return detail::joined(of(1), of(2));
    if (n.op == operation::to_integer && argument(0).kind == kind::condition) return {0, 1};
    if (n.op == operation::load && argument(0).op == operation::input)
        return range_of(inputs[static_cast<std::size_t>(argument(0).input)].element);
    if (family_of(n.op) == family::arithmetic) return detail::ranges_of_arithmetic[n.op](of(0), of(second));
    if (family_of(n.op) == family::bits) return detail::ranges_of_bits[n.op](of(0), of(second));
    return {};
}

}  // namespace attune
