// rejects: a sum, any or all runs over what is known before the scores; a row or an output is not
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant =
    outputs(lse = log_sum_exp(scores) + as_row(sum(n, 4, where(any(n, 4, log_sum_exp(scores) > n), 1, 0))));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = outputs(lse = log_sum_exp(scores) + as_row(sum(n, 4, slopes(n))));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
