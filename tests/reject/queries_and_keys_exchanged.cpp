// rejects: scores are q * t(k); the left factor is not a tensor (batch, head, query, depth)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(k * t(q)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(q * t(k)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
