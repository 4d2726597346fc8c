#pragma once
#include <attune/ir/attention_cores.hpp>

#include <array>
#include <span>

namespace attune {

/// Why one kernel cannot make all outputs of a graph.
enum class outputs_problem : std::uint8_t {
    none,
    too_many_cores,
    pairs_of_several_cores,  ///< scores, weights, or their sums over queries or heads, beside a second softmax
    scores_apart,            ///< scores are written that the other outputs do not see
    tokens_of_two_outputs
};

namespace detail {

/// Whether node `what` is part of node `whole`.
constexpr bool is_part_of(node_list nodes, node_id what, node_id whole) {
    node_table<bool> reached{};
    reached[whole] = true;
    for (node_id at = whole; at > what; --at) {  // arguments lie before their users
        const instruction& node = nodes[at];
        for (int a = 0; reached[at] && a < node.argument_count; ++a)
            reached[node.arguments[static_cast<std::size_t>(a)]] = true;
    }
    return what <= whole && reached[what];
}

constexpr bool is_of_pairs(kind is) {
    return is == kind::scores || is == kind::weights || is == kind::column || is == kind::head_mean;
}

}  // namespace detail

/// Every node of the list belongs to an output, as in those of `ir_of`.
constexpr outputs_problem outputs_problem_of(node_list nodes, std::span<const output_declaration> outputs) {
    const attention_cores cores(nodes);
    const auto node = [&](node_id n) -> const instruction& { return nodes[n]; };
    if (cores.too_many()) return outputs_problem::too_many_cores;
    // Scores are written as they are anywhere below what the weights and rows see, or below other written scores.
    const bool seen = cores.count() > 0;
    node_id outermost = seen ? cores[0].scores : no_node;
    for (const output_declaration& output : outputs) {
        if (cores.count() > 1 && detail::is_of_pairs(node(output.node).kind))
            return outputs_problem::pairs_of_several_cores;
        if (node(output.node).kind != kind::scores) continue;
        if (outermost >= 0 && detail::is_part_of(nodes, output.node, outermost)) continue;
        if (seen || (outermost >= 0 && !detail::is_part_of(nodes, outermost, output.node)))
            return outputs_problem::scores_apart;
        outermost = output.node;
    }
    node_id tokens_of = no_node;
    for (const instruction& it : nodes) {
        if (it.op != operation::load || node(it.arguments[0]).kind != kind::output) continue;
        if (tokens_of >= 0 && tokens_of != it.arguments[0]) return outputs_problem::tokens_of_two_outputs;
        tokens_of = it.arguments[0];
    }
    return outputs_problem::none;
}

}  // namespace attune
