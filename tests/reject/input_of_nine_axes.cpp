// rejects: an input has one to eight axes
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant =
    softmax(scores + input<"bias", f32>(batch, head, query, key, axis<"l">, axis<"m">, axis<"n">, axis<"o">, axis<"p">)(
                         b, h, q_idx, kv_idx, 0, 0, 0, 0, 0)) *
    v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant =
    softmax(scores + input<"bias", f32>(batch, head, query, key, axis<"m">, axis<"n">, axis<"o">, axis<"p">)(
                         b, h, q_idx, kv_idx, 0, 0, 0, 0)) *
    v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
