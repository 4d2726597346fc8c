// rejects: in flex x / y of integers is a real, as in PyTorch
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto i, auto j) { return doc[i] / 2 == doc[j] / 2; }));
#else
inline constexpr auto variant =
    flex(mask_mod([](auto, auto, auto i, auto j) { return floor_div(doc[i], 2) == floor_div(doc[j], 2); }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
