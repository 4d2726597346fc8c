// rejects: the extent of a sum, any or all is an integer
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum(n, 4.0, slopes(n))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + sum(n, 4, slopes(n))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
