// rejects: an integer is stored in elements of fewer bits
#include "language.hpp"

namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
inline constexpr auto codes = input<"codes", i8>(batch, key_head, key, depth);
#ifdef REJECT
inline constexpr auto variant =
    outputs(store(codes(b, h, new_kv_idx, d_idx), as_integer(round(k_new(b, h, q_idx, d_idx)))), out = out_of_cache);
#else
inline constexpr auto variant =
    outputs(store(codes(b, h, new_kv_idx, d_idx), clamp(as_integer(round(k_new(b, h, q_idx, d_idx))), -127, 127)),
            out = out_of_cache);
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my
