// rejects: part<i, n> is one of 0 .. n - 1
#include "layers.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = part<3, 3>(projected));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = outputs(out = part<2, 3>(projected));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
