// rejects: what is precomputed is read at (b, h, ...), an integer for each of its indices
#include "language.hpp"

namespace my {
inline constexpr auto numbers = precomputed(slopes(h), n, query_length);
#ifdef REJECT
inline constexpr auto variant = softmax(scores + numbers(h, q_idx)) * v;
#else
inline constexpr auto variant = softmax(scores + numbers(b, h, q_idx)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
