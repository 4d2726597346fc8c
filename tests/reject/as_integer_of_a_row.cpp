// rejects: as_integer takes a real, a score or a condition; a row or an output is none
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant =
    outputs(out = softmax(scores) * v, lse = log_sum_exp(scores) + as_integer(log_sum_exp(scores)));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant =
    outputs(out = softmax(scores + as_integer(scores)) * v, lse = log_sum_exp(scores + as_integer(scores)));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
