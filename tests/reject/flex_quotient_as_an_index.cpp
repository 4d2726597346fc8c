// rejects: in flex x / y of integers is a real, as in PyTorch
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto i, auto j) { return doc(i / 2) == doc(j); }));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant =
    flex(mask_mod([](auto, auto, auto i, auto j) { return doc(floor_div(i, 2)) == doc(j); }));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
