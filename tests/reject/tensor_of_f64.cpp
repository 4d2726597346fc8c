// rejects: f64 is for numbers of the call
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + input<"bias", f64>(head)(h)) * v;
#else
inline constexpr auto variant = softmax(scores * scalar<"bias", f64>) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
