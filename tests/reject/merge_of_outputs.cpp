// rejects: merge takes two states, such as state(softmax(s) * v, log_sum_exp(s))
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = merge(softmax(scores) * v, softmax(scores) * v).out);
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = outputs(
    out = merge(state(softmax(scores) * v, log_sum_exp(scores)), state(softmax(scores) * v, log_sum_exp(scores))).out);
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
