// rejects: columns, head means, what is precomputed and other tokens not yet
#include "language.hpp"

namespace my {
inline constexpr auto block = precomputed(slopes(h) * n, n, (key_length + 63) / 64);
inline constexpr auto masked = mask(scores, top_k(block, 2)(b, h, kv_idx / 64));
inline constexpr auto forward =
    outputs(out = softmax(masked) * v, lse = log_sum_exp(masked), output<"block_scores"> = block);
#ifdef REJECT
inline constexpr auto variant = gradient(forward, of(output<"block_scores">));
#else
inline constexpr auto variant = gradient(forward, of(out));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
