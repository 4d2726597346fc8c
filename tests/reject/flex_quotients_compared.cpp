// rejects: in flex x / y of integers is a real, as in PyTorch
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto i, auto j) { return i / 16 == j / 16; }));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant =
    flex(mask_mod([](auto, auto, auto i, auto j) { return floor_div(i, 16) == floor_div(j, 16); }));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
