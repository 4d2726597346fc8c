#pragma once
#include <attune/ir/builder.hpp>

#include <array>
#include <span>

namespace attune {

/// Why one kernel cannot make all outputs of a graph.
enum class outputs_problem : std::uint8_t {
    none,
    different_scores,         ///< weights, maxima or sums of the exponentials of two scores
    different_weights,        ///< two softmaxes, or one and unnormalized weights
    scores_apart,             ///< scores are written that the other outputs do not see
    weighed_differently,      ///< values are multiplied by two weights, of which one is `where(condition, weights, 0)`
    different_values,         ///< two tensors are weighed
    sum_beside_unnormalized,  ///< log_sum_exp and unnormalized weights
    tokens_of_two_outputs
};

namespace detail {

/// Whether node `what` is part of node `whole`.
constexpr bool is_part_of(std::span<const instruction> nodes, std::int32_t what, std::int32_t whole) {
    std::array<bool, dsl::detail::max_nodes> reached{};
    reached[static_cast<std::size_t>(whole)] = true;
    for (std::int32_t at = whole; at > what; --at) {  // arguments lie before their users
        const instruction& node = nodes[static_cast<std::size_t>(at)];
        for (int a = 0; reached[static_cast<std::size_t>(at)] && a < node.argument_count; ++a)
            reached[static_cast<std::size_t>(node.arguments[static_cast<std::size_t>(a)])] = true;
    }
    return what <= whole && reached[static_cast<std::size_t>(what)];
}

/// A node, or none yet: what all outputs have to agree on.
class agreed_node {
public:
    constexpr bool differs_from(std::int32_t node) {
        const bool differs = node_ >= 0 && node_ != node;
        node_ = node;
        return differs;
    }
    constexpr std::int32_t node() const { return node_; }

private:
    std::int32_t node_ = -1;
};

}  // namespace detail

/// Every node of the list belongs to an output, as in those of `ir_of`.
constexpr outputs_problem outputs_problem_of(std::span<const instruction> nodes,
                                             std::span<const output_declaration> outputs) {
    detail::agreed_node scores, weights, weighing, value, tokens_of;
    bool log_sum = false, unnormalized = false;
    for (std::int32_t at = 0; at < static_cast<std::int32_t>(nodes.size()); ++at) {
        const instruction& node = nodes[static_cast<std::size_t>(at)];
        const bool weighs = node.op == operation::softmax || node.op == operation::unnormalized;
        log_sum = log_sum || node.op == operation::log_sum_exp;
        unnormalized = unnormalized || node.op == operation::unnormalized;
        if (weighs || node.op == operation::log_sum_exp || node.op == operation::row_maximum)
            if (scores.differs_from(node.arguments[0])) return outputs_problem::different_scores;
        if (weighs && weights.differs_from(at)) return outputs_problem::different_weights;
        if (node.op == operation::weighted_sum) {
            if (weighing.differs_from(node.arguments[0])) return outputs_problem::weighed_differently;
            if (value.differs_from(node.arguments[1])) return outputs_problem::different_values;
        }
        const bool of_output =
            node.op == operation::load && nodes[static_cast<std::size_t>(node.arguments[0])].kind == kind::output;
        if (of_output && tokens_of.differs_from(node.arguments[0])) return outputs_problem::tokens_of_two_outputs;
    }
    if (log_sum && unnormalized) return outputs_problem::sum_beside_unnormalized;
    // Scores are written as they are anywhere below what the weights and rows see, or below other written scores.
    const bool seen = scores.node() >= 0;
    for (const output_declaration& output : outputs) {
        if (nodes[static_cast<std::size_t>(output.node)].kind != kind::scores) continue;
        const std::int32_t outermost = scores.node();
        if (outermost >= 0 && detail::is_part_of(nodes, output.node, outermost)) continue;
        if (seen || (outermost >= 0 && !detail::is_part_of(nodes, outermost, output.node)))
            return outputs_problem::scores_apart;
        scores.differs_from(output.node);
    }
    return outputs_problem::none;
}

}  // namespace attune
