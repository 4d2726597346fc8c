// rejects: the outputs weigh values by different weights; name them in different graphs
#include "language.hpp"

namespace my {
inline constexpr auto weights = softmax(scores);
inline constexpr auto near = output<"near">;
#ifdef REJECT
inline constexpr auto variant = outputs(out = weights * v, near = where(kv_idx > q_idx - 8, weights, 0) * v);
#else
inline constexpr auto variant = outputs(out = where(kv_idx > q_idx - 8, weights, 0) * v, near = weights);
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
