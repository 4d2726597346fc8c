// rejects: a shard has no shards; it takes any keys
#include "language.hpp"

namespace my {
inline constexpr auto forward = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
#ifdef REJECT
inline constexpr auto variant = shard(shard(forward));
#else
inline constexpr auto variant = shard(forward);
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
