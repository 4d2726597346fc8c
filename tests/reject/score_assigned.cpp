// rejects: a value of the graph does not change; give the new one a name of its own
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto h, auto, auto) {
    score = score + slopes(h);
    return score;
}));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto h, auto, auto) {
    auto biased = score + slopes(h);
    return biased;
}));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
