#pragma once
#include <attune/ir/integer_interval.hpp>
#include <attune/ir/operations.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

/// The stores of a graph: their tensors, their positions, their channels.
namespace attune {

/// The input that a store writes to.
constexpr std::int16_t tensor_of(node_list nodes, const store_declaration& store) {
    const instruction& place = nodes[store.element];
    return nodes[place.arguments[0]].input;
}

/// The value of a store, and its condition: `store(element, where(condition, value, element))` leaves an element as it
/// is where the condition does not hold. It neither reads it then nor looks at its place.
struct stored_value {
    node_id value;
    node_id condition{no_node};  ///< -1: everywhere
    constexpr bool has_condition() const { return condition >= 0; }
};
constexpr stored_value value_of(node_list nodes, const store_declaration& store) {
    const instruction& chosen = nodes[store.value];
    if (chosen.op == operation::where && chosen.arguments[2] == store.element)
        return {chosen.arguments[1], chosen.arguments[0]};
    return {store.value};
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
constexpr int channel_axis(node_list nodes, const store_declaration& store) {
    const instruction& place = nodes[store.element];
    for (int axis = 0; axis + 1 < place.argument_count; ++axis) {
        const node_id index = place.arguments[static_cast<std::size_t>(axis) + 1];
        if (nodes[index].op == operation::d_idx) return axis;
    }
    return -1;
}

/// From the formula alone, as limits that a formula states: clamp(x, -127, 127), x & 15. Integers wrap around where
/// they may leave 32 bits.
constexpr integer_interval integers_of(node_list nodes, std::span<const input_declaration> inputs, node_id node) {
    const instruction& n = nodes[node];
    const auto argument = [&](std::size_t i) { return nodes[n.arguments[i]]; };
    const auto of = [&](std::size_t i) { return integers_of(nodes, inputs, n.arguments[i]); };
    if (n.kind == kind::condition) return {0, 1};
    if (n.op == operation::constant) return integer_interval::of(n.integer);
    if (n.op == operation::where) return joined(of(1), of(2));
    if (n.op == operation::to_integer && argument(0).kind == kind::condition) return {0, 1};
    if (n.op == operation::load && argument(0).op == operation::input)
        return interval_of(inputs[static_cast<std::size_t>(argument(0).input)].element).wrapped();
    if (n.op == operation::from_bits) return interval_of(element_in_bits(n)).wrapped();
    if (const family is = family_of(n.op); is == family::arithmetic || is == family::bits)
        return interval_of(n.op, of(0), of(n.argument_count > 1 ? 1 : 0)).wrapped();
    return integer_interval::of_32_bits();
}

}  // namespace attune
