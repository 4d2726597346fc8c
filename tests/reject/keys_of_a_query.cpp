// rejects: queries depend on (b, h, q_idx, d_idx), keys and values on (b, h, kv_idx, d_idx)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(keys(k(b, h, kv_idx, d_idx) * q_idx))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(q * t(keys(k(b, h, kv_idx, d_idx) * kv_idx))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
