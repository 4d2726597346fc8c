// rejects: unnormalized(scores) and row_maximum(scores): the argument is not scores
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = unnormalized(softmax(scores)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = unnormalized(scores) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
