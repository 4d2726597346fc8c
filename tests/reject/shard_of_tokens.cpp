// rejects: attune makes no shard of a graph with tokens
#include "layers.hpp"

namespace my {
inline constexpr auto split_scores = split * t(split);
inline constexpr auto attended = softmax(split_scores) * split;
#ifdef REJECT
inline constexpr auto layer = merge_heads(attended);
inline constexpr auto variant = shard(outputs(out = layer, lse = log_sum_exp(split_scores)));
#else
inline constexpr auto variant = shard(outputs(out = attended, lse = log_sum_exp(split_scores)));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
