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
inline constexpr auto variant = softmax(causal ? scores : scores) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(where(causal, scores, -inf)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
