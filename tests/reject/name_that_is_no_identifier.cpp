// rejects: the name of an input is an identifier, as of a variable
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + input<"my slopes", f32>(head)(h)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + input<"my_slopes", f32>(head)(h)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
