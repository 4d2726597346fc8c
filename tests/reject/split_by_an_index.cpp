// rejects: the number of heads is one integer for the whole call
#include "layers.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(split_heads(projected, q_idx) * t(split)) * split;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(split_heads(projected, key_heads) * t(split)) * split;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
