// rejects: the values are a sequence whose heads are not split
#include "layers.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(split * t(split)) * projected;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(split * t(split)) * split;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
