// rejects: a condition is compared with a number
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, causal == 1)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, causal == (kv_idx > 3))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
