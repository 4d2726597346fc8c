// rejects: attune makes no gradients yet that no score has a part in
#include "language.hpp"

namespace my {
inline constexpr auto bias = input<"bias", f32>(value_depth);
inline constexpr auto attended = softmax(scores) * v;
inline constexpr auto forward =
    outputs(out = attended + bias(d_idx), output<"attended"> = attended, lse = log_sum_exp(scores));
#ifdef REJECT
inline constexpr auto variant = gradient(forward, of(out), wrt(bias));
#else
inline constexpr auto variant = gradient(forward, of(out), wrt(bias, q));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
