// rejects: weights are multiplied and divided by plain numbers of (b, h, q_idx, kv_idx); a row or an output belongs to
// weights * v
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = (softmax(scores) / row_sum(softmax(scores))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores) * v / row_sum(softmax(scores));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
