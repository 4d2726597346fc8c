// rejects at length: its functions are exp, log, tanh, erf, sqrt, rsqrt, abs, min and max without std::
#include "language.hpp"

#include <cmath>

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, pow(q_idx, 2) > kv_idx)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, q_idx* q_idx > kv_idx)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
