// rejects: flex takes score_mod(...), mask_mod(...), a scale if it is not rsqrt(depth), and three tensors
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = flex([](auto, auto, auto i, auto j) { return i >= j; });
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto i, auto j) { return i >= j; }));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
