// rejects: a comparison takes numbers; a tensor is read at indices first
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, doc == doc)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, doc(q_idx) == doc(kv_idx))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
