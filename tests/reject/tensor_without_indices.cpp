// rejects: arithmetic on something that is not a number; a tensor is read at indices, such as slopes(h)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + slopes) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + slopes(h)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
