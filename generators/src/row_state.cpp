#include "row_state.hpp"

namespace attune::generators {
using namespace Halide;

Func row_state::define_further_weights(const kernel_frame& frame, score_tile& scores, const Func& weights, bool softmax,
                                       const std::function<Func(const std::string& name, const Func& pairs)>& sum) {
    // Algorithm
    const std::vector<Var> pair = scores.pair();
    const auto modified = [&](int node) {
        if (node == frame.its.statistic_node) return weights;
        const auto [at, is_new] = modified_.try_emplace(node, "weights_" + std::to_string(node));
        if (is_new) at->second(pair) = scores.weights(node, weights(pair));
        return at->second;
    };
    for (const int node : frame.its.summed_weights)
        if (!(softmax && node == frame.its.statistic_node) && !row_sums_.contains(node)) row_sums_[node] = sum("sum_" + std::to_string(node), modified(node));
    return frame.its.weights < 0 ? Func() : modified(frame.its.weights);
}

}  // namespace attune::generators
