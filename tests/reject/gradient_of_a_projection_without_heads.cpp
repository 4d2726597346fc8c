// rejects: the gradient needs a sum of weights that no output has by itself
#include "layers.hpp"

// What an output projection sums over is read by the gradient.
namespace my {
inline constexpr auto attended = softmax(scores) * v;
inline constexpr auto projection = linear(merge_heads(attended), w, shift);
#ifdef REJECT
inline constexpr auto forward = outputs(out = projection, lse = log_sum_exp(scores));
#else
inline constexpr auto forward = outputs(out = projection, output<"attended"> = attended, lse = log_sum_exp(scores));
#endif
inline constexpr auto variant = gradient(forward);
inline constexpr auto text = ir_of<variant>;
}  // namespace my
