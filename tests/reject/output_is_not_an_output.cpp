// rejects: a named output is neither an output, such as softmax(scores) * v, nor a row, such as log_sum_exp(scores)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = softmax(scores) * v, lse = scores);
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
