// rejects: top_p(x, share): the share is one number for the whole call
#include "language.hpp"

namespace my {
inline constexpr auto numbers = precomputed(slopes(h) * n, n, (key_length + 63) / 64);
#ifdef REJECT
inline constexpr auto chosen = top_p(numbers, slopes(h))(b, h, kv_idx / 64);
#else
inline constexpr auto chosen = top_p(numbers, 0.9)(b, h, kv_idx / 64);
#endif
inline constexpr auto variant = softmax(mask(scores, chosen)) * v;
inline constexpr auto text = description<variant>;
}  // namespace my
