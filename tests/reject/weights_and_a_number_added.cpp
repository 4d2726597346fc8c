// rejects: weights are multiplied and divided by numbers, and nothing else
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = (softmax(scores) + 1.0) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = (softmax(scores) * 2.0) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
