// rejects: &&, || and ! join conditions; did you forget a comparison, such as q_idx >= kv_idx?
#include <attune/dsl.hpp>

namespace my {
using namespace attune::dsl;
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto doc = input<"doc", i32>(position);
inline constexpr auto scores = q * t(k) * rsqrt(depth);
}

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, causal && kv_idx)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, causal && kv_idx > 0)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
