// rejects: the gradient of a softmax needs its log_sum_exp
#include "language.hpp"

namespace my {
inline constexpr auto forward = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
#ifdef REJECT
inline constexpr auto bare = softmax(scores) * v;
inline constexpr auto variant = gradient(bare);
#else
inline constexpr auto variant = gradient(forward);
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
