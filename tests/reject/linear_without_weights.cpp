// rejects: linear takes a sequence and its weights, or a bias as well
#include "layers.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = linear(x));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = outputs(out = linear(x, w));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
