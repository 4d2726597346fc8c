// rejects: a sequence is an input (batch, position, axis<"model">), position also query or key; this has another number
// of axes
#include "layers.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = linear(w, w));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = outputs(out = linear(x, w));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
