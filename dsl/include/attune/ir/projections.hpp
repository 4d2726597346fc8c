#pragma once
#include <attune/ir/operations.hpp>

#include <optional>
#include <vector>

/// Tensors that a kernel computes in full before anything reads them: tokens, and queries, keys and values that are
/// made by matrix products. Kernels are made from this, and `explain` counts their cost by it.
namespace attune {

/// sum(n, extent, of_position * of_channel), by its nodes. One factor varies with the position and not with the
/// channel, the other with the channel and not with the position.
struct matrix_product {
    node_id sum{}, of_position{}, of_channel{}, extent{};
    bool position_of_head{}, channel_of_head{};  ///< whether the factor differs from head to head
};

constexpr bool is_formed(operation op) {
    return op == operation::queries || op == operation::keys || op == operation::values;
}

namespace detail {

inline node_map<dependences_of_node> dependences_in(const graph_ir& graph) {
    node_map<dependences_of_node> all(graph.nodes.size());
    fold(graph.nodes, all, what_varies);
    return all;
}

inline std::optional<matrix_product> matrix_product_at(const graph_ir& graph,
                                                       const node_map<dependences_of_node>& depends, node_id sum) {
    constexpr unsigned position = variable::query | variable::key;
    const instruction& it = graph.nodes[sum];
    const dependences_of_node& of = depends[sum];
    if (it.op != operation::sum || it.kind != kind::real || of.bound || !of.has(variable::channel) || !of.has(position))
        return {};
    const instruction& body = graph.nodes[it.arguments[2]];
    if (body.op != operation::multiply) return {};
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
        const node_id left = body.arguments[side], right = body.arguments[1 - side];
        const dependences_of_node &first = depends[left], &second = depends[right];
        if (!first.has(variable::channel) && !second.has(position | variable::batch))
            return matrix_product{
                sum, left, right, it.arguments[1], first.has(variable::head), second.has(variable::head)};
    }
    return {};
}

/// The nodes that a formula is computed from; with `whole`, also those that make the tensors it reads.
inline node_map<bool> made_of(const graph_ir& graph, node_id formula, bool whole) {
    node_map<bool> reached(graph.nodes.size());
    reached[formula] = true;
    for (node_id n = formula; n >= 0; --n) {
        const instruction& it = graph.nodes[n];
        if (!reached[n] || (!whole && (it.op == operation::tokens || it.kind == kind::output))) continue;
        for (int i = 0; i < it.argument_count; ++i) reached[it.arguments[static_cast<std::size_t>(i)]] = true;
    }
    return reached;
}

}  // namespace detail

/// The matrix products of the formula that tokens, queries, keys or values are made by, first to last.
inline std::vector<matrix_product> products_of(const graph_ir& graph, node_id tensor, bool whole = false) {
    const node_id formula = graph.nodes[tensor].arguments[0];
    const node_map<dependences_of_node> depends = detail::dependences_in(graph);
    const node_map<bool> made = detail::made_of(graph, formula, whole);
    std::vector<matrix_product> all;
    for (node_id n{}; n <= formula; ++n)
        if (made[n])
            if (const auto product = detail::matrix_product_at(graph, depends, n)) all.push_back(*product);
    return all;
}

/// The tensors that are computed in full on the way to the graph's outputs, arguments before users: tokens, and
/// queries, keys and values that are made by products, or that a gradient reads by element.
inline std::vector<node_id> computed_in_full(const graph_ir& graph) {
    node_map<bool> needed(graph.nodes.size()), read(graph.nodes.size());
    for (const instruction& node : graph.nodes)
        if (node.op == operation::load) read[node.arguments[0]] = true;
    for (const output_declaration& output : graph.outputs) needed[output.node] = true;
    for (node_id n = node_at(graph.nodes.size() - 1); n >= 0; --n)
        for (int i = 0; needed[n] && i < graph.nodes[n].argument_count; ++i)
            needed[graph.nodes[n].arguments[static_cast<std::size_t>(i)]] = true;
    std::vector<node_id> all;
    for (node_id n{}; n < std::ssize(graph.nodes); ++n) {
        const operation op = graph.nodes[n].op;
        if (needed[n] &&
            (op == operation::tokens || (is_formed(op) && (read[n] || !products_of(graph, n, true).empty()))))
            all.push_back(n);
    }
    return all;
}

}  // namespace attune
