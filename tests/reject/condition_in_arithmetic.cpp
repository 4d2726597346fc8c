// rejects: a condition is used as a number; write where(condition, a, b)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + causal * 1.0) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + where(causal, 1.0, 0.0)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
