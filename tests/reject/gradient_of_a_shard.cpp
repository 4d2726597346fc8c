// rejects: attune makes no gradient of a shard; make the shard of the gradient: shard(gradient(graph))
#include "language.hpp"

namespace my {
inline constexpr auto forward = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
#ifdef REJECT
inline constexpr auto variant = gradient(shard(forward));
#else
inline constexpr auto variant = shard(gradient(forward));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
