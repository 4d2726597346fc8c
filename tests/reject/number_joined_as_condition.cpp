// rejects: &&, || and ! join conditions; did you forget a comparison, such as q_idx >= kv_idx?
#include "language.hpp"

namespace my {
#ifdef REJECT
// clang-format off
inline constexpr auto variant = softmax(mask(scores, causal && kv_idx)) * v;
// clang-format on
inline constexpr auto text = description<variant>;
#else
// clang-format off
inline constexpr auto variant = softmax(mask(scores, causal && kv_idx > 0)) * v;
// clang-format on
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
