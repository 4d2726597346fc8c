// rejects: channels(x) takes q, k or another input
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(queries(rms_norm(slopes(h), gain, 1e-6)) * t(k)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(queries(rms_norm(q, gain, 1e-6)) * t(k)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
