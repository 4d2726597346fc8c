// rejects: the channels of a store run over one axis of its tensor
#include "language.hpp"

namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
#ifdef REJECT
inline constexpr auto variant =
    outputs(store(k(b, h, new_kv_idx + d_idx / 32, d_idx), k_new(b, h, q_idx, d_idx)), out = out_of_cache);
#else
inline constexpr auto variant =
    outputs(store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx)), out = out_of_cache);
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my
