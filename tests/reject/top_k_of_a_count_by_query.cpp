// rejects: top_k(x, count): the count is one integer for the whole call
#include "language.hpp"

namespace my {
inline constexpr auto numbers = precomputed(slopes(h) * n, n, (key_length + 63) / 64);
#ifdef REJECT
inline constexpr auto chosen = top_k(numbers, q_idx / 64)(b, h, kv_idx / 64);
#else
inline constexpr auto chosen = top_k(numbers, query_length / 64)(b, h, kv_idx / 64);
#endif
inline constexpr auto variant = softmax(mask(scores, chosen)) * v;
inline constexpr auto text = description<variant>;
}  // namespace my
