// rejects: the width of tokens is one integer for the whole call, such as extent<0>(w)
#include "language.hpp"

namespace my {
inline constexpr auto attended = softmax(scores) * v;
#ifdef REJECT
inline constexpr auto variant = outputs(out = tokens(attended(b, 0, q_idx, d_idx), h));
#else
inline constexpr auto variant = outputs(out = tokens(attended(b, 0, q_idx, d_idx), heads));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
