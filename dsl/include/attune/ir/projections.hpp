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
    int sum{}, of_position{}, of_channel{}, extent{};
    bool position_of_head{}, channel_of_head{};  ///< whether the factor differs from head to head
};

constexpr bool is_formed(operation op) {
    return op == operation::queries || op == operation::keys || op == operation::values;
}

namespace detail {

inline std::vector<dependences_of_node> dependences_in(const graph_ir& graph) {
    std::vector<dependences_of_node> all;
    for (const instruction& node : graph.nodes)
        all.push_back(dependences_at(node, [&](int argument) { return all[static_cast<std::size_t>(argument)]; }));
    return all;
}

inline std::optional<matrix_product> matrix_product_at(const graph_ir& graph,
                                                       const std::vector<dependences_of_node>& depends, int sum) {
    constexpr unsigned position = variable::query | variable::key;
    const instruction& it = graph.nodes[static_cast<std::size_t>(sum)];
    const dependences_of_node& of = depends[static_cast<std::size_t>(sum)];
    if (it.op != operation::sum || it.kind != kind::real || of.bound || !of.has(variable::channel) || !of.has(position))
        return {};
    const instruction& body = graph.nodes[static_cast<std::size_t>(it.arguments[2])];
    if (body.op != operation::multiply) return {};
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
        const int left = body.arguments[side], right = body.arguments[1 - side];
        const dependences_of_node &first = depends[static_cast<std::size_t>(left)],
                                  &second = depends[static_cast<std::size_t>(right)];
        if (!first.has(variable::channel) && !second.has(position | variable::batch))
            return matrix_product{
                sum, left, right, it.arguments[1], first.has(variable::head), second.has(variable::head)};
    }
    return {};
}

/// The nodes that a formula is computed from; with `whole`, also those that make the tensors it reads.
inline std::vector<bool> made_of(const graph_ir& graph, int formula, bool whole) {
    std::vector<bool> reached(graph.nodes.size());
    reached[static_cast<std::size_t>(formula)] = true;
    for (int n = formula; n >= 0; --n) {
        const instruction& it = graph.nodes[static_cast<std::size_t>(n)];
        if (!reached[static_cast<std::size_t>(n)] ||
            (!whole && (it.op == operation::tokens || it.kind == kind::output)))
            continue;
        for (int i = 0; i < it.argument_count; ++i)
            reached[static_cast<std::size_t>(it.arguments[static_cast<std::size_t>(i)])] = true;
    }
    return reached;
}

}  // namespace detail

/// The matrix products of the formula that tokens, queries, keys or values are made by, first to last.
inline std::vector<matrix_product> products_of(const graph_ir& graph, int tensor, bool whole = false) {
    const int formula = graph.nodes[static_cast<std::size_t>(tensor)].arguments[0];
    const std::vector<dependences_of_node> depends = detail::dependences_in(graph);
    const std::vector<bool> made = detail::made_of(graph, formula, whole);
    std::vector<matrix_product> all;
    for (int n = 0; n <= formula; ++n)
        if (made[static_cast<std::size_t>(n)])
            if (const auto product = detail::matrix_product_at(graph, depends, n)) all.push_back(*product);
    return all;
}

/// The tensors that are computed in full on the way to the graph's outputs, arguments before users: tokens, and
/// queries, keys and values that are made by products, or that a gradient reads by element.
inline std::vector<int> computed_in_full(const graph_ir& graph) {
    std::vector<bool> needed(graph.nodes.size()), read(graph.nodes.size());
    for (const instruction& node : graph.nodes)
        if (node.op == operation::load) read[static_cast<std::size_t>(node.arguments[0])] = true;
    for (const output_declaration& output : graph.outputs) needed[static_cast<std::size_t>(output.node)] = true;
    for (std::size_t n = graph.nodes.size(); n-- > 0;)
        for (int i = 0; needed[n] && i < graph.nodes[n].argument_count; ++i)
            needed[static_cast<std::size_t>(graph.nodes[n].arguments[static_cast<std::size_t>(i)])] = true;
    std::vector<int> all;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        const operation op = graph.nodes[n].op;
        if (needed[n] && (op == operation::tokens ||
                          (is_formed(op) && (read[n] || !products_of(graph, static_cast<int>(n), true).empty()))))
            all.push_back(static_cast<int>(n));
    }
    return all;
}

}  // namespace attune
