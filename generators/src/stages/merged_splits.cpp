#include "stages/merged_splits.hpp"

#include "expr/joined.hpp"

#include <utility>

namespace attune::generators::inline stages {
using namespace Halide;

Expr merged_splits::of_split(const Expr& number, const Expr& split, const std::vector<Expr>& row) const {
    const kernel_frame::stacked_row its = f_.stacked_row_of(row);
    return left.of_splits(number, its.row, min(split, left.splits - 1), its.query_block, its.key_head, its.batch);
}

merged_splits::merged_splits(const kernel_frame& frame, left_numbers of_splits, const Expr& scale)
    : left(std::move(of_splits)), most(splits_of(frame.request.schedule)), f_(frame) {
    // Algorithm
    const std::vector<Var> row{f_.qi, f_.qt, f_.h, f_.b};
    const std::vector<Expr> of_row(row.begin(), row.end());
    const auto with = [&](const Var& first) { return std::vector<Var>{first, f_.qi, f_.qt, f_.h, f_.b}; };
    const auto at = [&](const Expr& first) { return std::vector<Expr>{first, f_.qi, f_.qt, f_.h, f_.b}; };
    const auto higher = [](const Expr& a, const Expr& b) { return max(a, b); };
    if (left.maximum_at >= 0) {
        std::vector<Expr> of_thread, of_all;
        for (int i = 0; i < most; i += warp)
            of_thread.push_back(select(i + l < left.splits, of_split(left.maximum_at, i + l, of_row),
                                       is_softmax(f_.core) ? lowest_score : lowest));
        tops(with(l)) = joined(of_thread, higher);
        for (int t = 0; t < warp; ++t) of_all.push_back(tops(at(t)));
        top(row) = joined(of_all, higher);
    }
    if (is_softmax(f_.core)) factor(with(sp)) = weight_of_split(of_split(left.maximum_at, sp, of_row), top(row), scale);
    constexpr int together = mergers * merged_at_once;
    some_splits = RDom({{0, merged_at_once}, {0, (left.splits + together - 1) / together}}, "some_splits");
    const Expr split = (some_splits.y * merged_at_once + some_splits.x) * mergers + g;
    Expr value = of_split(x, split, of_row);
    if (is_softmax(f_.core)) value = value * factor(at(clamp(split, 0, most - 1)));
    const std::vector<Var> each{x, g, f_.qi, f_.qt, f_.h, f_.b};
    merging(each) = 0.0f;
    merging(each) += select(split < left.splits, value, 0.0f);
    merged(each) = merging(each);
}

Expr merged_splits::sum_of(const Expr& number, const std::vector<Expr>& row) const {
    std::vector<Expr> all;
    for (int t = 0; t < mergers; ++t) all.push_back(merged(number, t, row[0], row[1], row[2], row[3]));
    return joined(all, [](const Expr& a, const Expr& b) { return a + b; });
}

}  // namespace attune::generators::inline stages
