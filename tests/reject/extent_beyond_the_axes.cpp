// rejects: extent<n>(tensor) is the length of axis n of an input, 0 the outermost; this has no such axis
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, kv_idx < extent<1>(slopes))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, kv_idx < extent<0>(slopes))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
