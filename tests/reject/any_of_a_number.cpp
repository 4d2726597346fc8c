// rejects: any(n, extent, condition): the third argument is not a condition; did you forget a comparison?
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, any(n, 4, doc(n)))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, any(n, 4, doc(n) == q_idx))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
