// rejects: attune makes no shard of a graph with precomputed tensors
#include "language.hpp"

namespace my {
inline constexpr auto block = precomputed(slopes(h) * n, n, (key_length + 63) / 64);
#ifdef REJECT
inline constexpr auto masked = mask(scores, top_k(block, 2)(b, h, kv_idx / 64));
#else
inline constexpr auto masked = mask(scores, slopes(h) * kv_idx > 64.0);
#endif
inline constexpr auto variant = shard(outputs(out = softmax(masked) * v, lse = log_sum_exp(masked)));
inline constexpr auto text = ir_of<variant>;
}  // namespace my
