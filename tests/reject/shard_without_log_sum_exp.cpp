// rejects: the shard of a softmax needs its log_sum_exp, of the same scores and sink, among the outputs
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = shard(outputs(out = softmax(scores, 0.0) * v, lse = log_sum_exp(scores)));
#else
inline constexpr auto variant = shard(outputs(out = softmax(scores, 0.0) * v, lse = log_sum_exp(scores, 0.0)));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
