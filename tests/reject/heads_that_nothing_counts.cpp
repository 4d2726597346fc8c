// rejects: no input has an axis that says how many heads there are; pass a tensor with the axis head
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto tokens_in = input<"tokens_in", f32>(batch, query, depth);
inline constexpr auto own = tokens_in(b, q_idx, d_idx);
#else
inline constexpr auto tokens_in = input<"tokens_in", f32>(batch, head, query, depth);
inline constexpr auto own = tokens_in(b, h, q_idx, d_idx);
#endif
inline constexpr auto cache = input<"cache", f32>(batch, key, depth);
inline constexpr auto past = cache(b, kv_idx, d_idx);
inline constexpr auto variant = softmax(queries(own) * t(keys(past)) + as_real(h) / heads) * values(past);
inline constexpr auto text = ir_of<variant>;
}  // namespace my
