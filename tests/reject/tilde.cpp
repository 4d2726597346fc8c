// rejects: ~ is no operator here; a condition is negated with !
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, ~causal)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, !causal)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
