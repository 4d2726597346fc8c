#pragma once
#include <attune/ir/graph_ir.hpp>

#include <span>

namespace attune {

/// Why one kernel cannot make all that a graph computes from its scores' rows.
enum class statistics_problem : std::uint8_t {
    none,
    different_scores,  ///< weights, maxima or sums of the exponentials of two scores
    different_weights  ///< two softmaxes, or one and unnormalized weights
};

constexpr statistics_problem statistics_problem_of(std::span<const instruction> nodes) {
    int scores = -1, weights = 0;
    for (const instruction& node : nodes) {
        const bool weighs = node.op == operation::softmax || node.op == operation::unnormalized;
        if (!weighs && node.op != operation::log_sum_exp && node.op != operation::row_maximum) continue;
        if (scores >= 0 && scores != node.arguments[0]) return statistics_problem::different_scores;
        scores = node.arguments[0];
        if (weighs && ++weights > 1) return statistics_problem::different_weights;
    }
    return statistics_problem::none;
}

}  // namespace attune
