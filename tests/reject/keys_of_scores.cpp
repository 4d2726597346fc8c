// rejects: queries, keys and values form a tensor of a number
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(keys(scores))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(q * t(keys(k(b, h, kv_idx, d_idx)))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
