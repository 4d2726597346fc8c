// rejects: flex takes score_mod(...), mask_mod(...) or both in this order
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto i, auto j) { return i >= j; }),
                                     score_mod([](auto s, auto, auto, auto, auto) { return s * 2.0; }));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = flex(score_mod([](auto s, auto, auto, auto, auto) { return s * 2.0; }),
                                     mask_mod([](auto, auto, auto i, auto j) { return i >= j; }));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
