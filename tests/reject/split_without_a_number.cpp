// rejects: split_heads takes a sequence and the number of heads
#include "layers.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(split_heads(projected) * t(split)) * split;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(split_heads(projected, 4) * t(split)) * split;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
