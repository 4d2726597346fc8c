// rejects: weights weigh the values of a tensor (batch, head, key, value_depth), such as v
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores) * k;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
