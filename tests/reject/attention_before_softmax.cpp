// rejects: scores are multiplied by a tensor without normalisation; wrap them in softmax(...)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores * v);
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
