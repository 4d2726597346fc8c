#pragma once
#include <attune/ir/graph_ir.hpp>

#include <algorithm>

namespace attune {

/// The input whose gradient an output is, by its position in graph_ir::inputs; -1 if it is no gradient.
constexpr int input_of_gradient(const graph_ir& graph, const output_declaration& output) {
    const instruction* n = &graph.nodes[output.node];
    if (n->kind != kind::gradient) return -1;
    while (n->op == operation::add) n = &graph.nodes[n->arguments[0]];
    return n->input;
}

/// Whether an output has the kernel's element type: outputs proper, and gradients of inputs that have it. All others
/// are f32.
constexpr bool has_open_element(const graph_ir& graph, const output_declaration& output) {
    const int input = input_of_gradient(graph, output);
    return input >= 0 ? graph.inputs[static_cast<std::size_t>(input)].element == element_type::any
                      : graph.nodes[output.node].kind == kind::output;
}

constexpr bool makes_gradients(const graph_ir& graph) {
    return std::any_of(graph.outputs.begin(), graph.outputs.end(),
                       [&](const output_declaration& each) { return input_of_gradient(graph, each) >= 0; });
}

}  // namespace attune
