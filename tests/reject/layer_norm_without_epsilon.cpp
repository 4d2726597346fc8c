// rejects: layer_norm takes a sequence, its gain and shift over the channels, and what is added to the variance
#include "layers.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = layer_norm(x, shift, shift));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = outputs(out = layer_norm(x, shift, shift, 1e-5));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
