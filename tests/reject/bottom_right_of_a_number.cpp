// rejects: bottom_right(condition) shifts the queries of a condition, such as causal
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, bottom_right(q_idx) >= kv_idx)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, bottom_right(q_idx >= kv_idx))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
