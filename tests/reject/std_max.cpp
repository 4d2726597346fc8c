// rejects: and min and max without std::
#include "language.hpp"

#include <algorithm>

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(std::max(scores, scores)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(max(scores, scores)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
