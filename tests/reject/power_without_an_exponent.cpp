// rejects: pow, atan2, fmod, logaddexp and floor_div take two numbers
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(pow(scores)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(pow(scores, 2)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
