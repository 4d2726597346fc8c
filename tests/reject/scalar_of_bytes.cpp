// rejects: a scalar is i32, f32 or f64
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + scalar<"bias", bf16>) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + scalar<"bias", f32>) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
