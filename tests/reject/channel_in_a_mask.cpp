// rejects: scores have no channel; d_idx stands in queries(...), keys(...), values(...)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, d_idx < 4)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, kv_idx < 4)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
