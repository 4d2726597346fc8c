// rejects: tokens are read at (b, position, channel), an output at (b, head, q_idx, channel), all integers
#include "language.hpp"

namespace my {
inline constexpr auto attended = softmax(scores) * v;
#ifdef REJECT
inline constexpr auto variant = outputs(out = tokens(attended(b, q_idx, d_idx), value_depth));
#else
inline constexpr auto variant = outputs(out = tokens(attended(b, 0, q_idx, d_idx), value_depth));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
