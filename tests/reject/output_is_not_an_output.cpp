// rejects: a named output is an output, a row, scores, weights, sum_over_queries(...), mean_over_heads(...) or
// precomputed(...)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = softmax(scores) * v, lse = slopes(h));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
