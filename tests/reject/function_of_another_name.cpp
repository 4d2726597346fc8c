// rejects at length: attune has no maximum; write max\(x, y\)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(maximum(scores, 0.0)) * v;
#else
inline constexpr auto variant = softmax(max(scores, 0.0)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
