// rejects: mask(scores, condition): the first argument is not scores, such as q * t(k)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(q_idx, causal)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, causal)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
