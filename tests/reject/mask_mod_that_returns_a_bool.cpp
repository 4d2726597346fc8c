// rejects: a bool of C++ is the same for every query and key; a condition compares indices
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto, auto) { return true; }));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto, auto kv_idx) { return kv_idx >= 0; }));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
