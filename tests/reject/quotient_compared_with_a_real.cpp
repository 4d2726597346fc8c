// rejects: x / y of integers rounds down, and here it becomes a real
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, q_idx / 2 > 0.5)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, as_real(q_idx) / 2 > 0.5 && q_idx / 2 > 1)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
