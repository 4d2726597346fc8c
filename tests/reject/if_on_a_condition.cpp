// rejects: a condition has no value until the kernel runs; write where(condition, a, b) instead of if, ?: or while
#include <attune/dsl.hpp>

namespace my {
using namespace attune::dsl;
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto doc = input<"doc", i32>(position);
inline constexpr auto scores = q * t(k) * rsqrt(depth);
}

namespace my {
#ifdef REJECT
constexpr auto modify() {
    if (q_idx >= kv_idx) return scores;
    return scores;
}
inline constexpr auto variant = softmax(modify()) * v;
#else
constexpr auto modify() { return where(q_idx >= kv_idx, scores, -inf); }
inline constexpr auto variant = softmax(modify()) * v;
#endif
}  // namespace my
