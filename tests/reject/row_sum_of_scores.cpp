// rejects: row_sum, sum_over_queries and mean_over_heads take weights, such as softmax(scores)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = softmax(scores) * v, lse = row_sum(scores));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = outputs(out = softmax(scores) * v, lse = row_sum(softmax(scores)));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
