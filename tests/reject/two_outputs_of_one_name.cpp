// rejects: one name stands for two things in this graph
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = softmax(scores) * v, out = log_sum_exp(scores));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
