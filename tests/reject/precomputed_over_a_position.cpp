// rejects: the axes of what is precomputed are bound indices, each followed by its extent
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto numbers = precomputed(slopes(h), n, q_idx);
#else
inline constexpr auto numbers = precomputed(slopes(h), n, query_length);
#endif
inline constexpr auto variant = softmax(scores + numbers(b, h, q_idx)) * v;
inline constexpr auto text = description<variant>;
}  // namespace my
