// rejects: a condition is compared with a number; a <= x <= b is written a <= x && x <= b
#include <attune/dsl.hpp>

namespace my {
using namespace attune::dsl;
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto doc = input<"doc", i32>(position);
inline constexpr auto scores = q * t(k) * rsqrt(depth);
}

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, 0 <= q_idx - kv_idx <= 5)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, 0 <= q_idx - kv_idx && q_idx - kv_idx <= 5)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
