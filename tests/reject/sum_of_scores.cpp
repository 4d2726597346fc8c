// rejects: a sum adds plain numbers or counts conditions; scores are made by q * t(k)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(sum(n, 4, scores)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + sum(n, 4, slopes(n))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
