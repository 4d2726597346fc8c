// rejects: a row or an output meets what differs from key to key
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(keys(k(b, h, kv_idx, d_idx) * log_sum_exp(scores)))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(q * t(keys(k(b, h, kv_idx, d_idx) * slopes(h)))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
