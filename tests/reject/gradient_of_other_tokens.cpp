// rejects: attune makes gradients of outputs, rows, and outputs with their heads merged, projected by linear or not; of
// scores,
#include "layers.hpp"

// A sum over fewer channels than all heads have.
namespace my {
inline constexpr auto attended = softmax(scores) * v;
#ifdef REJECT
inline constexpr auto projection =
    tokens(sum(n, 32, attended(b, n / value_depth, q_idx, n % value_depth) * w(d_idx, n)), extent<0>(w));
#else
inline constexpr auto projection = tokens(
    sum(n, heads* value_depth, attended(b, n / value_depth, q_idx, n % value_depth) * w(d_idx, n)), extent<0>(w));
#endif
inline constexpr auto forward = outputs(out = projection, output<"attended"> = attended, lse = log_sum_exp(scores));
inline constexpr auto variant = gradient(forward);
inline constexpr auto text = ir_of<variant>;
}  // namespace my
