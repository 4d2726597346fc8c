// rejects: scores, weights and their sums over queries or heads are written where there is one softmax
#include "language.hpp"

namespace my {
inline constexpr auto near = output<"near">;
#ifdef REJECT
inline constexpr auto variant = outputs(out = softmax(mask(scores, causal)) * v, near = softmax(scores));
#else
inline constexpr auto variant = outputs(out = softmax(mask(scores, causal)) * v, near = softmax(scores) * v);
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
