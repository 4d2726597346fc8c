// rejects: a graph that stores has nothing precomputed(...) yet; store in a graph of its own
#include "language.hpp"

namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto place = k(b, h, new_kv_idx, d_idx);
inline constexpr auto block = precomputed(slopes(h) * n, n, (key_length + 63) / 64);
#ifdef REJECT
inline constexpr auto seen = top_k(block, 2)(b, h, kv_idx / 64);
#else
inline constexpr auto seen = slopes(h) * as_real(kv_idx) < 2;
#endif
inline constexpr auto variant = outputs(store(place, k_new(b, h, q_idx, d_idx)), out = softmax(mask(scores, seen)) * v);
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my
