// rejects: a sum adds plain numbers or counts conditions
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum(n, 4, slopes)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + sum(n, 4, slopes(n))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
