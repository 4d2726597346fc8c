// rejects: the name of a scalar is an identifier, as of a variable
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores * scalar<"my scale", f32>) * v;
#else
inline constexpr auto variant = softmax(scores * scalar<"my_scale", f32>) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
