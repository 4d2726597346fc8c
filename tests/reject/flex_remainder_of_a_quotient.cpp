// rejects: in flex x / y of integers is a real, as in PyTorch
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto s, auto, auto, auto i, auto) { return s + i / 4 % 2; }));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant =
    flex(score_mod([](auto s, auto, auto, auto i, auto) { return s + floor_div(i, 4) % 2; }));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
