// rejects: weights are kept by a condition of (b, h, q_idx, kv_idx); rows, outputs and d_idx have no place in it
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = where(d_idx > 3, softmax(scores), 0) * v;
#else
inline constexpr auto variant = where(kv_idx > 3, softmax(scores), 0) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
