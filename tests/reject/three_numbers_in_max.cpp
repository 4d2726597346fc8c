// rejects: min and max take two numbers; of three, max(max(a, b), c)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(max(scores, q_idx, 0)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(max(max(scores, q_idx), 0)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
