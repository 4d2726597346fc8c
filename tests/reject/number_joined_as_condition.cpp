// rejects: &&, || and ! join conditions; did you forget a comparison, such as q_idx >= kv_idx?
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, causal && kv_idx)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, causal && kv_idx > 0)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
