// rejects: t(...) transposes a tensor, such as k
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(scores)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(q * t(k)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
