// rejects: sum, largest, any and all take a bound index, its extent and a body
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum(4, slopes(n))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + sum(n, 4, slopes(n))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
