// rejects: attune makes no gradient of this operation yet
#include "language.hpp"

namespace my {
inline constexpr auto forward =
    outputs(out = softmax(scores) * v, lse = log_sum_exp(scores), output<"top"> = row_maximum(scores));
#ifdef REJECT
inline constexpr auto variant = gradient(forward, of(out, output<"top">));
#else
inline constexpr auto variant = gradient(forward, of(out, lse));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
