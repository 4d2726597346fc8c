// rejects: of\(...\) names something that is no output of this graph
#include "language.hpp"

namespace my {
inline constexpr auto forward = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
#ifdef REJECT
inline constexpr auto variant = gradient(forward, of(output<"total">));
#else
inline constexpr auto variant = gradient(forward, of(lse));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
