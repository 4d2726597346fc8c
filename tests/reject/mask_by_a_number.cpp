// rejects: mask(scores, condition): the second argument is not a condition; did you forget a comparison?
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, q_idx - kv_idx)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, q_idx - kv_idx >= 0)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
