// rejects: several values of a store have one place
#include "language.hpp"

namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
#ifdef REJECT
inline constexpr auto variant =
    outputs(store(k(b, h, kv_lengths(b) - 1, d_idx), k_new(b, h, q_idx, d_idx)), out = out_of_cache);
#else
inline constexpr auto variant =
    outputs(store(k(b, h, kv_lengths(b) - 1, d_idx), k_new(b, h, query_length - 1, d_idx)), out = out_of_cache);
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my
