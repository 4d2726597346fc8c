// rejects: a tensor is indexed by other axes than it was declared with
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(queries(q(b, h, d_idx, d_idx)) * t(k)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(queries(q(b, h, q_idx, d_idx)) * t(k)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
