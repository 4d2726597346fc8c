// rejects: a tensor is indexed by something that is not an integer; indices are integers
#include <attune/dsl.hpp>

namespace my {
using namespace attune::dsl;
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto doc = input<"doc", i32>(position);
inline constexpr auto scores = q * t(k) * rsqrt(depth);
}

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, doc(causal) == 1)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, doc(q_idx) == 1)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
