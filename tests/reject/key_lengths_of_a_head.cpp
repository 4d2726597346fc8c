// rejects: kv_lengths has one axis, the batch: it is read as kv_lengths(b)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, kv_idx < kv_lengths(h))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, kv_idx < kv_lengths(b))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
