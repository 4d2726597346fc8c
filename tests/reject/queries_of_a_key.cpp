// rejects: queries depend on (b, h, q_idx, d_idx), keys and values on (b, h, kv_idx, d_idx)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(queries(k(b, h, kv_idx, d_idx)) * t(k)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(queries(q(b, h, q_idx, d_idx)) * t(k)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
