// rejects: a graph that stores has no shard
#include "language.hpp"

namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
inline constexpr auto store_one = store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx));
#ifdef REJECT
inline constexpr auto variant = shard(outputs(store_one, out = softmax(scores) * v, lse = log_sum_exp(scores)));
#else
inline constexpr auto variant = shard(outputs(out = softmax(scores) * v, lse = log_sum_exp(scores)));
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my
