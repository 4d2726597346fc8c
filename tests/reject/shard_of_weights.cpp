// rejects: the outputs of a shard are sums over the keys, their log_sum_exp and row_maximum; scores, weights
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = shard(outputs(output<"weights"> = softmax(scores), lse = log_sum_exp(scores)));
#else
inline constexpr auto variant = shard(outputs(output<"sum"> = row_sum(softmax(scores)), lse = log_sum_exp(scores)));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
