// rejects: the call passes something that this variant never reads
#include <attune/runtime.hpp>

namespace my {
using namespace attune::dsl;
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto doc = input<"doc", i32>(position);
inline constexpr auto scores = q * t(k) * rsqrt(depth);
inline constexpr auto w = scalar<"w", i32>;
inline constexpr auto variant = softmax(mask(scores + slopes(h), window(w, 0))) * v;
}

void call(attune::tensor x) {
    using namespace my;
#ifdef REJECT
    attune::run<variant>(q = x, k = x, v = x, slopes = x, doc = x, w = 3, out = x);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, out = x);
#endif
}
