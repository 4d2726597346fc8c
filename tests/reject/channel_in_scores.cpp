// rejects: scores have no channel; d_idx stands in queries(...), keys(...), values(...)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + gain(d_idx)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(queries(q(b, h, q_idx, d_idx) * gain(d_idx)) * t(k)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
