// rejects: two inputs of one graph have the same name but are declared differently
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
