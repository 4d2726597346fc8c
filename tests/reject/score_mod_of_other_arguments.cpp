// rejects: a score_mod takes (score, b, h, q_idx, kv_idx)
#include <attune/dsl.hpp>

namespace my {
using namespace attune::dsl;
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto doc = input<"doc", i32>(position);
inline constexpr auto scores = q * t(k) * rsqrt(depth);
}

namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto score, auto h) { return score + slopes(h); }));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto h, auto, auto) { return score + slopes(h); }));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
