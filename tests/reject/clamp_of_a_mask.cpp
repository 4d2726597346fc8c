// rejects: masked pairs would be seen again, as tanh (of softcap), exp, sigmoid, erf, atan, sign, and max with a number
// are finite at -infinity
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(clamp(mask(scores, causal), -50, 50)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(max(mask(scores, causal), mask(scores, kv_idx < 4))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
