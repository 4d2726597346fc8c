// rejects: a tensor is indexed by something that is not an integer; indices are integers
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, doc(q_idx * 0.5) == 1)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, doc(q_idx / 2) == 1)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
