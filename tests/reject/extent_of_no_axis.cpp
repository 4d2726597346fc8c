// rejects: extent is told which axis: extent<1>(tensor), 0 the outermost
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, kv_idx < extent(slopes))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, kv_idx < extent<0>(slopes))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
