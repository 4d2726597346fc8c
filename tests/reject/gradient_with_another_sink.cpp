// rejects: the gradient of a softmax needs its log_sum_exp
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto forward = outputs(out = softmax(scores, slopes(h)) * v, lse = log_sum_exp(scores));
inline constexpr auto variant = gradient(forward);
#else
inline constexpr auto forward = outputs(out = softmax(scores, slopes(h)) * v, lse = log_sum_exp(scores, slopes(h)));
inline constexpr auto variant = gradient(forward);
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
