// rejects: a tensor is indexed by another number of indices than it has axes
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + slopes(b, h)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + slopes(h)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
