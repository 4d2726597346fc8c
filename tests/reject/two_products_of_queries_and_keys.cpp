// rejects: a score has one product q * t(k); a further one is a sum over its channels
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + q * t(more_keys)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + sum(n, depth, q(b, h, q_idx, n) * more_keys(b, h, kv_idx, n))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
