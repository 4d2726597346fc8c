// rejects: a tensor is multiplied by weights; the weighted sum is written weights * v
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = v * softmax(scores);
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
