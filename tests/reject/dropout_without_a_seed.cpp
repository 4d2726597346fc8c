// rejects: dropout takes weights, a probability and a seed
#include "layers.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = dropout(softmax(split * t(split)), 0.1) * split;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = dropout(softmax(split * t(split)), 0.1, 7) * split;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
