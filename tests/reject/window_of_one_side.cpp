// rejects: a window has two sides, both inclusive: window(left, right)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, window(256))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, window(255, 0))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
