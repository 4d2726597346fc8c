// rejects: attune makes no gradient of this operation yet
#include "language.hpp"

namespace my {
inline constexpr auto block = precomputed(slopes(h) * n, n, (key_length + 63) / 64);
#ifdef REJECT
inline constexpr auto masked = scores + block(b, h, kv_idx / 64);
#else
inline constexpr auto masked = mask(scores, top_k(block, 2)(b, h, kv_idx / 64));
#endif
inline constexpr auto variant = gradient(outputs(out = softmax(masked) * v, lse = log_sum_exp(masked)));
inline constexpr auto text = ir_of<variant>;
}  // namespace my
