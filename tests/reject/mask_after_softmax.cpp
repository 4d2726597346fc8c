// rejects: the mask comes before softmax: softmax(mask(scores, condition)) * v
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = mask(softmax(scores), causal) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, causal)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
