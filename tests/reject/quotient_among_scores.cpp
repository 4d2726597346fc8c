// rejects: x / y of integers rounds down, and here it becomes a real
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + q_idx / 2) * v;
#else
inline constexpr auto variant = softmax(scores + as_real(q_idx) / 2 + floor_div(q_idx, 2) + as_real(kv_idx / 2)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
