// rejects: attune makes no gradient of this operation yet
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto weights = quantized<u8>(softmax(scores));
#else
inline constexpr auto weights = softmax(scores);
#endif
inline constexpr auto forward = outputs(out = weights * v, lse = log_sum_exp(scores));
inline constexpr auto variant = gradient(forward, of(out), wrt(q));
inline constexpr auto text = ir_of<variant>;
}  // namespace my
