// rejects: flex takes score_mod(...), mask_mod(...), a scale if it is not rsqrt(depth), and three tensors
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(k, v, score_mod([](auto s, auto, auto, auto, auto) { return s * 2; }));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = flex(q, k, v, score_mod([](auto s, auto, auto, auto, auto) { return s * 2; }));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
