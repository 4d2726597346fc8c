// rejects: a tensor is indexed by another number of indices than it has axes
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + slopes[h][h]) * v;
#else
inline constexpr auto variant = softmax(scores + slopes[h]) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
