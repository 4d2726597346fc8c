// rejects: a mask_mod takes (b, h, q_idx, kv_idx)
#include <attune/dsl.hpp>

namespace my {
using namespace attune::dsl;
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto doc = input<"doc", i32>(position);
inline constexpr auto scores = q * t(k) * rsqrt(depth);
}

namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(mask_mod([](auto q_idx, auto kv_idx) { return q_idx >= kv_idx; }));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) { return q_idx >= kv_idx; }));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
