// rejects: outputs have names and are parts of the graph
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(softmax(scores) * v, log_sum_exp(scores));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
