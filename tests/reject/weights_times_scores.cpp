// rejects: weights are multiplied and divided by plain numbers of (b, h, q_idx, kv_idx)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = (softmax(scores) * scores) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = (softmax(scores) * slopes(h)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
