// rejects: merge_heads takes an output, such as softmax(scores) * v
#include "layers.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = merge_heads(projected));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = outputs(out = merge_heads(softmax(split * t(split)) * split));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
