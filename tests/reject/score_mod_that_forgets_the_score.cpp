// rejects: a score_mod returns a score
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto, auto, auto h, auto, auto) { return slopes(h); }));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto h, auto, auto) { return score + slopes(h); }));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
