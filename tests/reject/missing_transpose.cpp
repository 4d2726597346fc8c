// rejects: two tensors are multiplied; the contraction of q and k is written q * t(k)
#include <attune/dsl.hpp>

namespace my {
using namespace attune::dsl;
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto doc = input<"doc", i32>(position);
inline constexpr auto scores = q * t(k) * rsqrt(depth);
}

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * k) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(q * t(k)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
