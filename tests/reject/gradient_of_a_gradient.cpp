// rejects: attune makes no gradient of a gradient yet
#include "language.hpp"

namespace my {
inline constexpr auto forward = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
#ifdef REJECT
inline constexpr auto first = gradient(forward);
inline constexpr auto variant = gradient(first);
#else
inline constexpr auto variant = gradient(forward);
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
