// rejects: queries and keys are multiplied as q * t(k); two tensors of heads are multiplied here
#include "layers.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(split * split) * split;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(split * t(split)) * split;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
