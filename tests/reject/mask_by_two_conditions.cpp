// rejects: mask takes scores and one condition; conditions are joined with &&
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, causal, window(3, 0))) * v;
inline constexpr auto text = description<variant>;
#else
// clang-format off
inline constexpr auto variant = softmax(mask(scores, causal && window(3, 0))) * v;
// clang-format on
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
