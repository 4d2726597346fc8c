// rejects: an output is read at the query that it is of
#include "language.hpp"

namespace my {
inline constexpr auto attended = softmax(scores) * v;
#ifdef REJECT
inline constexpr auto variant = outputs(out = tokens(attended(b, 0, q_idx - 1, d_idx), value_depth));
#else
inline constexpr auto variant = outputs(out = tokens(attended(b, 0, q_idx, d_idx), value_depth));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
