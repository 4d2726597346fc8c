// rejects: a graph that stores has no gradient
#include "language.hpp"

namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
inline constexpr auto store_one = store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx));
inline constexpr auto masked = mask(scores, causal_bottom_right);
#ifdef REJECT
inline constexpr auto variant = gradient(outputs(store_one, out = out_of_cache, lse = log_sum_exp(masked)));
#else
inline constexpr auto variant = gradient(outputs(out = out_of_cache, lse = log_sum_exp(masked)));
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my
