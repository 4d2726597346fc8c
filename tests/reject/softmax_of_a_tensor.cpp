// rejects: softmax(scores): the argument is not scores
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
