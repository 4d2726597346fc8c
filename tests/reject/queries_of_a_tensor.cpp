// rejects: queries, keys and values form a tensor of a number; tensors are read at indices
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(queries(q) * t(k)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(queries(q(b, h, q_idx, d_idx)) * t(k)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
