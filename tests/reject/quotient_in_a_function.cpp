// rejects: x / y of integers rounds down, and here it becomes a real
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores * exp2(-(kv_idx / 16 + 1))) * v;
#else
inline constexpr auto variant = softmax(scores * exp2(-(floor_div(kv_idx, 16) + 1))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
