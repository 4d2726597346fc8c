// rejects: no gradient flows to a tensor that wrt\(...\) names
#include "language.hpp"

namespace my {
inline constexpr auto stepped = scores + floor(slopes(h) * scores);
inline constexpr auto forward = outputs(out = softmax(stepped) * v, lse = log_sum_exp(stepped));
#ifdef REJECT
inline constexpr auto variant = gradient(forward, wrt(q, slopes));
#else
inline constexpr auto variant = gradient(forward, wrt(q, k));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
