// rejects: one name stands for two things in this graph
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + input<"slopes", i32>(head)(h) + slopes(h)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + input<"slopes", f32>(head)(h) + slopes(h)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
