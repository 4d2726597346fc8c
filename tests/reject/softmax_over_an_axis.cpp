// rejects: softmax takes scores, or scores and a sink
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores, -1, 0) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
