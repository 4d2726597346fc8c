// rejects: scores meet a row or an output; those are known only after all scores of a row
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + softmax(scores) * v) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + scores) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
