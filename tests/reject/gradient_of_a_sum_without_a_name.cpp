// rejects: the gradient needs a sum of weights that no output has by itself
#include "language.hpp"

namespace my {
inline constexpr auto attended = softmax(scores) * v;
#ifdef REJECT
inline constexpr auto forward = outputs(out = attended * slopes(h), lse = log_sum_exp(scores));
inline constexpr auto variant = gradient(forward);
#else
inline constexpr auto forward =
    outputs(out = attended * slopes(h), output<"attended"> = attended, lse = log_sum_exp(scores));
inline constexpr auto variant = gradient(forward, of(out));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
