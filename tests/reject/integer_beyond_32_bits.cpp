// rejects: an integer constant does not fit in 32 bits
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, kv_idx < 4294967296)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, kv_idx < 2147483647)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
