#pragma once
#include <attune/ir/graph_ir.hpp>

#include <cstddef>

/// Axes of outputs whose names and extents the graph states itself: the channels of tokens, the indices of precomputed
/// tensors.
namespace attune {

/// Axes of a precomputed tensor: batch, head, its indices.
constexpr std::size_t rank_of_precomputed(const instruction& of) { return 2 + of.argument_count / 2U; }

/// The name of such an axis, by its place among the output's axes.
constexpr std::string_view name_of_own_axis(const graph_ir& graph, const output_declaration& output, std::size_t axis) {
    const instruction& of = graph.nodes[output.node];
    if (of.kind == kind::tokens) return "channel";
    const instruction& index = graph.nodes[of.arguments[2 * axis - 3]];
    return graph.indices[static_cast<std::size_t>(index.integer)];
}

/// The node of its extent, a number of the call.
constexpr node_id extent_of_own_axis(const graph_ir& graph, const output_declaration& output, std::size_t axis) {
    const instruction& of = graph.nodes[output.node];
    return of.arguments[of.kind == kind::tokens ? 1 : 2 * axis - 2];
}

}  // namespace attune
