// rejects: where(condition, a, b): a and b are two numbers or two conditions
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(where(causal, scores, slopes)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(where(causal, scores, slopes(h))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
