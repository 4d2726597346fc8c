// rejects: attune makes gradients of outputs, rows, and outputs with their heads merged, projected by linear or not; of
// scores,
#include "language.hpp"

namespace my {
inline constexpr auto forward =
    outputs(out = softmax(scores) * v, lse = log_sum_exp(scores), output<"weights"> = softmax(scores));
#ifdef REJECT
inline constexpr auto variant = gradient(forward, of(output<"weights">));
#else
inline constexpr auto variant = gradient(forward, of(out));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
