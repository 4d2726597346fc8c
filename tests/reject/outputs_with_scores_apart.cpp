// rejects: the graph writes scores that its other outputs are not made of; name them in different graphs
#include "language.hpp"

namespace my {
inline constexpr auto before = output<"before">;
#ifdef REJECT
inline constexpr auto variant = outputs(out = softmax(mask(scores, causal)) * v, before = scores * 2);
#else
inline constexpr auto variant = outputs(out = softmax(mask(scores, causal)) * v, before = scores);
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
