// rejects: a condition has no value until the kernel runs; write where(condition, a, b) instead of if, ?: and while
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto, auto i, auto j) {
    if (i >= j) return score;
    return score;
}));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant =
    flex(score_mod([](auto score, auto, auto, auto i, auto j) { return where(i >= j, score, score * 0.5); }));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
