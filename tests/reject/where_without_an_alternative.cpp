// rejects: where takes a condition and two values: where(condition, a, b)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(where(causal, scores)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(where(causal, scores, -inf)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
