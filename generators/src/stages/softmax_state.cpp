#include "stages/softmax_state.hpp"

#include "expr/math.hpp"
#include "stages/kept_number.hpp"

namespace attune::generators::inline stages {
using namespace Halide;

Expr larger_score(const plan& core, const Expr& a, const Expr& b) {
    return is_softmax(core) ? max(a, b) : larger_of(a, b);
}

std::vector<Func> block_weights::of_rows() const {
    std::vector<Func> all;
    for (const Func& f : {highest, sum})
        if (f.defined()) all.push_back(f);
    for (const auto& [node, f] : row_sums) all.push_back(f);
    return all;
}

std::vector<Func> block_weights::of_pairs(const plan& core) const {
    std::vector<Func> all;
    if (has_weights(core)) all.push_back(weights);
    for (const auto& [node, f] : modified) all.push_back(f);
    if (scaled.defined()) all.push_back(scaled);
    return all;
}

block_weights weights_of_block(const kernel_frame& frame, const score_tile& scores_at, const Func& scores,
                               const reduction& reduced, const std::function<Expr(const Expr&)>& rounded) {
    // Algorithm
    const plan& core = frame.core;
    const row_plan& row = frame.keys().row;
    const bool softmax = is_softmax(core);
    const std::vector<Var> pair = scores_at.pair();
    block_weights of{.weights = Func("weights")};
    if (row.maximum) of.highest = reduced("highest", scores, true);
    if (softmax) {
        const Expr score = scores(pair), highest = of.highest(frame.qi, frame.kb, frame.qt, frame.h, frame.b);
        // A single key is its block's highest: a compiler that is told of no NaN makes 0 of the difference.
        const Expr below = frame.cut.key_block > 1 ? score - highest : difference_as_it_is(score, highest);
        of.weights(pair) = rounded(exp2_of_nonpositive(below * (scores_at.scale * log2_of_e)));
        of.sum = reduced("sum", of.weights, false);
    } else {
        of.weights(pair) = select(is_exactly(scores(pair), lowest), 0.0f, scores(pair) * scores_at.scale);
    }
    const auto made = [&](int node) {
        if (const operation op = frame.node(node).op; op == operation::in_u8 || op == operation::in_i16)
            node = frame.node(node).arguments[0];  // weights are rounded where they meet values
        if (node == core.statistic_node) return of.weights;
        const auto [at, is_new] = of.modified.try_emplace(node, "weights_" + std::to_string(node));
        if (is_new) at->second(pair) = scores_at.weights(node, of.weights(pair));
        return at->second;
    };
    for (const int node : row.others) of.row_sums[node] = reduced("sum_" + std::to_string(node), made(node), false);
    if (core.weights >= 0) of.weighing = made(core.weights);
    return of;
}

state_layout::state_layout(const plan& core, int accumulators, const block_weights& of)
    : accumulators(accumulators), initial(static_cast<std::size_t>(accumulators), 0.0f) {
    const auto place = [this](const Expr& value) {
        initial.push_back(value);
        return size() - 1;
    };
    if (of.highest.defined()) maximum_at = place(is_softmax(core) ? lowest_score : lowest);
    if (of.sum.defined()) sum_at = place(0.0f);
    for (const auto& [node, sum] : of.row_sums) summed_at[node] = place(0.0f);
}

std::vector<Expr> state_layout::with_block(const plan& core, const block_weights& of, const Expr& scale,
                                           const FuncRef& before, const std::function<Expr(const Func&)>& here,
                                           const std::function<Expr(int)>& accumulated) const {
    const auto old = [&](int i) { return number_at(before, i); };
    std::function<Expr(const Expr&, const Expr&)> join = [](const Expr& x, const Expr& y) { return x + y; };
    if (sum_at >= 0) {  // softmax's weights are relative to the maximum
        const Expr highest = old(maximum_at), now = here(of.highest);
        // One of the two factors is 1.
        const Expr factor = exp2_of_nonpositive(-abs(highest - now) * (scale * log2_of_e));
        const Expr keep = select(highest >= now, 1.0f, factor), take = select(now >= highest, 1.0f, factor);
        join = [keep, take](const Expr& x, const Expr& y) { return x * keep + y * take; };
    }
    std::vector<Expr> next;
    for (int i = 0; i < accumulators; ++i) next.push_back(join(old(i), accumulated(i)));
    if (maximum_at >= 0) next.push_back(larger_score(core, old(maximum_at), here(of.highest)));
    if (sum_at >= 0) next.push_back(join(old(sum_at), here(of.sum)));
    for (const auto& [node, sum] : of.row_sums) next.push_back(join(old(summed_at.at(node)), here(sum)));
    return next;
}

Expr weight_of_split(const Expr& maximum, const Expr& of_all, const Expr& scale) {
    return exp2_of_nonpositive((maximum - of_all) * (scale * log2_of_e));
}

}  // namespace attune::generators::inline stages
