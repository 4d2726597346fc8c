// rejects: tokens are made of two different outputs; name them in different graphs
#include "layers.hpp"

namespace my {
inline constexpr auto attended = softmax(scores) * v;
inline constexpr auto twice = output<"twice">;
#ifdef REJECT
inline constexpr auto variant = outputs(out = merge_heads(attended), twice = merge_heads(attended * 2));
#else
inline constexpr auto variant = outputs(out = merge_heads(attended), twice = attended * 2);
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
