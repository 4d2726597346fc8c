// rejects: arithmetic after the sum belongs after the last call
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = shard(outputs(out = softmax(scores) * v * 2.0, lse = log_sum_exp(scores)));
#else
inline constexpr auto variant = shard(outputs(out = softmax(scores) * 2.0 * v, lse = log_sum_exp(scores)));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
