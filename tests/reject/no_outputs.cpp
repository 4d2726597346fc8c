// rejects: outputs have names and are parts of the graph
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs();
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = outputs(out = softmax(scores) * v);
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
