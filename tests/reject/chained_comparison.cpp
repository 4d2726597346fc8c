// rejects: a condition is compared with a number; a <= x <= b is written a <= x && x <= b
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, 0 <= q_idx - kv_idx <= 5)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, 0 <= q_idx - kv_idx && q_idx - kv_idx <= 5)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
