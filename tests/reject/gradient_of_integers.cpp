// rejects: wrt\(...\) names something that is no tensor of reals of this graph
#include "language.hpp"

namespace my {
inline constexpr auto forward = outputs(out = softmax(scores + doc(q_idx)) * v, lse = log_sum_exp(scores + doc(q_idx)));
#ifdef REJECT
inline constexpr auto variant = gradient(forward, wrt(doc));
#else
inline constexpr auto variant = gradient(forward, wrt(q));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
