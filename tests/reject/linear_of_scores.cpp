// rejects: linear, layer_norm and split_heads take an input (batch, position, axis<"model">), tokens, merge_heads(...)
// or one another's results
#include "layers.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = linear(scores, w));
#else
inline constexpr auto variant = outputs(out = linear(x, w));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
