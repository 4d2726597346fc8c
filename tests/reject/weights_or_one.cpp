// rejects: weights are chosen as where(condition, weights, 0), nothing else
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = where(causal, softmax(scores), 1) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = where(causal, softmax(scores), 0) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
