// rejects: where(condition, a, b): the first argument is not a condition; did you forget a comparison?
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(where(kv_idx, scores, -inf)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(where(kv_idx > 0, scores, -inf)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
