// rejects: quantized<i8>(x) makes codes of q, k or another input
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(queries(quantized<f16>(q)) * t(k)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(queries(quantized<i8>(q)) * t(k)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
