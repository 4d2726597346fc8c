// rejects: a condition has no value until the kernel runs; write where(condition, a, b) instead of if, ?: and while
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(causal ? scores : scores) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(where(causal, scores, -inf)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
