// rejects: the scores are normalised already; softmax is applied once
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(softmax(scores)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
