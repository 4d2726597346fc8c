// rejects: weights weigh the values of a tensor (batch, head, key, value_depth), such as v
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores) * queries(q(b, h, q_idx, d_idx));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores) * values(v(b, h, kv_idx, d_idx));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
