// rejects: a bool of C++ is the same for every query and key; a condition compares indices
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(where(1 > 0, scores, -inf)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(where(kv_idx > 0, scores, -inf)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
