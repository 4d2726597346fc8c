// rejects: a bool of C++ is the same for every query and key; a condition compares indices
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, true)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, kv_idx >= 0)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
