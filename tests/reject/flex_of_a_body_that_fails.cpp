// rejects: not_there
// not: attune: a score_mod
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto, auto, auto) { return not_there(score); }));
#else
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto, auto, auto) { return silu(score); }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
