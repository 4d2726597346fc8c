// rejects: the graph makes weights in two ways; a kernel has one softmax, with one sink at most, or one unnormalized
#include "language.hpp"

namespace my {
inline constexpr auto other = output<"other">;
#ifdef REJECT
inline constexpr auto variant = outputs(out = softmax(scores) * v, other = unnormalized(scores) * v);
#else
inline constexpr auto variant = outputs(out = softmax(scores) * v, other = row_maximum(scores));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
