// rejects: attune makes no gradient of this operation yet
#include "layers.hpp"

// A projection of what was projected, such as the layer behind attention.
namespace my {
inline constexpr auto attended = softmax(scores) * v;
inline constexpr auto projection = linear(merge_heads(attended), w);
#ifdef REJECT
inline constexpr auto last = linear(gelu(projection), input<"second", f32>(axis<"out">, axis<"in">));
#else
inline constexpr auto last = gelu(projection);
#endif
inline constexpr auto forward = outputs(out = last, output<"attended"> = attended, lse = log_sum_exp(scores));
inline constexpr auto variant = gradient(forward);
inline constexpr auto text = ir_of<variant>;
}  // namespace my
