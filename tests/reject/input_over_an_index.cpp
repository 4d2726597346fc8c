// rejects: an input is declared over axes: batch, head, key_head, query, key, position, depth, value_depth or
// axis<"name">
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + input<"bias", f32>(h)(h)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + input<"bias", f32>(head)(h)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
