// rejects: an input has one to five axes
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant =
    softmax(scores + input<"bias", f32>(batch, head, query, key, axis<"m">, axis<"n">)(b, h, q_idx, kv_idx, 0, 0)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant =
    softmax(scores + input<"bias", f32>(batch, head, query, key, axis<"n">)(b, h, q_idx, kv_idx, 0)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
