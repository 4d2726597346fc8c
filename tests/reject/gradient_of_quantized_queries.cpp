// rejects: attune makes no gradient of this operation yet
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto multiplied = queries(quantized<i8>(q)) * t(k);
#else
inline constexpr auto multiplied = queries(channels(q)) * t(k);
#endif
inline constexpr auto forward = outputs(out = softmax(multiplied) * v, lse = log_sum_exp(multiplied));
inline constexpr auto variant = gradient(forward, of(out), wrt(q));
inline constexpr auto text = ir_of<variant>;
}  // namespace my
