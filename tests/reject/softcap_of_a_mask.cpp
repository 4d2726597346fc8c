// rejects: masked pairs would be seen again, as tanh (of softcap), exp, sigmoid, erf, atan, sign, and max with a number
// are finite at -infinity
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(softcap(30.0, mask(scores, causal))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(softcap(30.0, scores), causal)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
