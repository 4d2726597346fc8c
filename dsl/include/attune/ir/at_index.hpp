#pragma once
#include <attune/ir/graph_ir.hpp>

namespace attune::detail {

/// Whether `other` is the same formula as `formula` with an index of a sum in place of d_idx, as a norm reads a
/// projection. The index, a node, is found if it is negative before. `of_channel` says of a node whether it depends on
/// d_idx.
template <class Nodes, class OfChannel>
constexpr bool is_at_index(const Nodes& nodes, const OfChannel& of_channel, node_id formula, node_id other,
                           node_id& index) {
    const instruction &x = nodes[static_cast<std::size_t>(formula)], &y = nodes[static_cast<std::size_t>(other)];
    if (x.op == operation::d_idx) {
        if (y.op != operation::bound || (index >= 0 && index != other)) return false;
        index = other;
        return true;
    }
    if (formula == other) return !of_channel(formula);
    if (x.op != y.op || x.kind != y.kind || x.argument_count != y.argument_count || x.input != y.input ||
        x.integer != y.integer || x.number != y.number || x.argument_count == 0)
        return false;
    for (std::size_t a = 0; a < x.argument_count; ++a)
        if (!is_at_index(nodes, of_channel, x.arguments[a], y.arguments[a], index)) return false;
    return true;
}

}  // namespace attune::detail
