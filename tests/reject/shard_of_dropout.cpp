// rejects: attune makes no shard of keep and dropout yet
#include "layers.hpp"

namespace my {
inline constexpr auto kept = input<"kept", boolean>(batch, head, query, key);
#ifdef REJECT
inline constexpr auto weights = dropout(softmax(scores), 0.5, 7);
#else
inline constexpr auto weights = where(kept(b, h, q_idx, kv_idx), softmax(scores), 0.0) / 0.5;
#endif
inline constexpr auto variant = shard(outputs(out = weights * v, lse = log_sum_exp(scores)));
inline constexpr auto text = ir_of<variant>;
}  // namespace my
