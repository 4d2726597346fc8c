// rejects: a parameter or an index called q, k or v hides that tensor
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant =
    flex(score_mod([](auto score, auto b, auto h, auto q, auto) { return score + q(b, h, q, 0); }));
#else
inline constexpr auto variant =
    flex(score_mod([](auto score, auto b, auto h, auto i, auto) { return score + q(b, h, i, 0); }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
