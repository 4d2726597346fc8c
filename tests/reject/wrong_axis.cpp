// rejects: a tensor is indexed by other axes than it was declared with
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + slopes(q_idx)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + slopes(h)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
