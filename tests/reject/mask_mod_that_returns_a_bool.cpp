// rejects: a mask_mod returns a condition; did you forget a comparison?
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
