// rejects: tokens depend on (b, q_idx, d_idx); an output is read at its elements, as merge_heads does
#include "language.hpp"

namespace my {
inline constexpr auto attended = softmax(scores) * v;
#ifdef REJECT
inline constexpr auto variant = outputs(out = tokens(attended(b, 0, q_idx, d_idx) + as_real(kv_idx), value_depth));
#else
inline constexpr auto variant = outputs(out = tokens(attended(b, 0, q_idx, d_idx) + as_real(q_idx), value_depth));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
