// rejects: a score_mod returns a score
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto, auto, auto, auto, auto) { return 0.5; }));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto, auto, auto) { return score * 0.5; }));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
