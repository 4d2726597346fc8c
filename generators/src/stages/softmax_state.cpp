#include "stages/softmax_state.hpp"

#include "expr/math.hpp"

namespace attune::generators {
using namespace Halide;

Func row_state::define_further_weights(const kernel_frame& frame, score_tile& scores, const Func& weights, bool softmax,
                                       const std::function<Func(const std::string& name, const Func& pairs)>& sum) {
    // Algorithm
    const std::vector<Var> pair = scores.pair();
    const auto modified = [&](int node) {
        if (node == frame.core.statistic_node) return weights;
        const auto [at, is_new] = modified_.try_emplace(node, "weights_" + std::to_string(node));
        if (is_new) at->second(pair) = scores.weights(node, weights(pair));
        return at->second;
    };
    for (const int node : frame.core.summed_weights)
        if (!(softmax && node == frame.core.statistic_node) && !row_sums_.contains(node))
            row_sums_[node] = sum("sum_" + std::to_string(node), modified(node));
    return frame.core.weights < 0 ? Func() : modified(frame.core.weights);
}

Func row_state::define_weights_of_block(
    const kernel_frame& frame, score_tile& scores_at, bool softmax, const block_of_scores& block,
    const std::function<Func(const std::string& name, const Func& pairs, bool maximum)>& reduced) {
    // Algorithm
    const std::vector<Var> pair = scores_at.pair();
    const auto& [scores, highest, weights, sum] = block;
    if (softmax || frame.core.maximum) highest = reduced("highest", scores, true);
    if (softmax) {
        weights(pair) = exp2_of_nonpositive((scores(pair) - highest(frame.qi, frame.kb, frame.qt, frame.h, frame.b)) *
                                            (scores_at.scale * log2_of_e));
        sum = reduced("sum", weights, false);
    } else {
        weights(pair) = select(is_exactly(scores(pair), lowest), 0.0f, scores(pair) * scores_at.scale);
    }
    return define_further_weights(frame, scores_at, weights, softmax, [&](const std::string& name, const Func& pairs) {
        return reduced(name, pairs, false);
    });
}

}  // namespace attune::generators
