// rejects: a tensor is read with parentheses and all its indices at once, such as bias(h, q_idx, kv_idx)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + slopes[h]) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + slopes(h)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
