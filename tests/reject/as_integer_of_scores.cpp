// rejects: as_integer takes a real or a condition that is known before the scores
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, doc(as_integer(scores)) > 0)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, doc(as_integer(slopes(h))) > 0)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
