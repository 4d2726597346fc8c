// rejects: a shard has one softmax; make a graph of each
#include "language.hpp"

namespace my {
inline constexpr auto one = softmax(scores) * v;
inline constexpr auto two = softmax(mask(scores, causal)) * v;
#ifdef REJECT
inline constexpr auto variant = shard(outputs(out = one, output<"other"> = two, lse = log_sum_exp(scores)));
#else
inline constexpr auto variant = shard(outputs(out = one, lse = log_sum_exp(scores)));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
