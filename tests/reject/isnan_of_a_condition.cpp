// rejects: a function of numbers and scores is applied to something else
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, isnan(causal))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, !isnan(scores))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
