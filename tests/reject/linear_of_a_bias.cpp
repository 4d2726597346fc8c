// rejects: the weights of linear are an input of two axes, (out, in) as PyTorch stores them
#include "layers.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = linear(x, shift));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = outputs(out = linear(x, w));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
