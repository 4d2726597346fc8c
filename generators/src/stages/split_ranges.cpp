#include "stages/split_ranges.hpp"

#include "expr/joined.hpp"

#include <cstdint>
#include <vector>

namespace attune::generators::inline stages {
using namespace Halide;

split_ranges::split_ranges(const kernel_frame& frame, const Func& kinds)
    : splits(clamp(frame.inputs.key_splits, 1, splits_of(frame.request.schedule))) {
    // Algorithm
    const Var &kb = frame.kb, &qt = frame.qt, &h = frame.h, &b = frame.b;
    const Expr none = cast<std::uint8_t>(0), all_blocks = frame.key_blocks(), stacked = frame.queries_stacked();
    every = RDom(
        {{0, (all_blocks + threads - 1) / threads}, {0, max((frame.inputs.query_length + stacked - 1) / stacked, 1)}},
        "every_block");
    const Expr at = every.x * threads + l, counts = at < all_blocks && kinds(at, every.y, h, b) != none;
    const std::vector<Var> of_thread{l, h, b};
    span_of_thread(of_thread) = Tuple(all_blocks, 0);
    const FuncRef so_far = span_of_thread(of_thread);
    span_of_thread(of_thread) = Tuple(select(counts, min(so_far[0], at), so_far[0]), select(counts, at + 1, so_far[1]));
    spans(of_thread) = Tuple(so_far[0], so_far[1]);
    std::vector<Expr> firsts, ends;
    for (int t = 0; t < threads; ++t) firsts.push_back(spans(t, h, b)[0]), ends.push_back(spans(t, h, b)[1]);
    const Expr first = joined(firsts, [](const Expr& x, const Expr& y) { return min(x, y); }),
               end = joined(ends, [](const Expr& x, const Expr& y) { return max(x, y); });
    span(h, b) = Tuple(first, max(end - first, 0));
    const FuncRef whole = span(h, b);
    range(sp, h, b) = Tuple(whole[0] + whole[1] * sp / splits, whole[0] + whole[1] * (sp + 1) / splits);
    const FuncRef bounds = range(sp, h, b);
    visits_of_split(kb, sp, qt, h, b) = select(bounds[0] <= kb && kb < bounds[1], kinds(kb, qt, h, b), none);
}

}  // namespace attune::generators::inline stages
