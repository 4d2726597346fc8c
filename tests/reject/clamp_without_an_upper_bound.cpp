// rejects: clamp takes a number and two bounds: clamp(x, low, high); with one bound it is max or min
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(clamp(scores, -5)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(clamp(scores, -5, 5)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
