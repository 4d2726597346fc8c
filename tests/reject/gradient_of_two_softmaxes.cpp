// rejects: attune makes no gradient of several softmaxes in one graph yet
#include "language.hpp"

namespace my {
inline constexpr auto one = softmax(scores) * v;
inline constexpr auto two = softmax(mask(scores, causal)) * v;
#ifdef REJECT
inline constexpr auto variant = gradient(outputs(out = one + two, lse = log_sum_exp(scores)));
#else
inline constexpr auto variant = gradient(outputs(out = one, lse = log_sum_exp(scores)));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
