// rejects: the outputs weigh two different tensors; name them in different graphs
#include "language.hpp"

namespace my {
inline constexpr auto other_v = input<"other_v", f32>(batch, key_head, key, value_depth);
inline constexpr auto weights = softmax(scores);
inline constexpr auto other = output<"other">;
#ifdef REJECT
inline constexpr auto variant = outputs(out = weights * v, other = weights * other_v);
#else
inline constexpr auto variant = outputs(out = weights * v, other = weights);
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
