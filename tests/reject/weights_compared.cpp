// rejects: a comparison takes numbers; a tensor is read at indices first
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = where(softmax(scores) > 0.1, softmax(scores), 0) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = where(scores > 0.1, softmax(scores), 0) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
