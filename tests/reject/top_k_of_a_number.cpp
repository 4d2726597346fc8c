// rejects: top_k and top_p choose among precomputed reals
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto chosen = top_k(slopes(h), 2)(b, h, kv_idx / 64);
#else
inline constexpr auto chosen = top_k(precomputed(slopes(h) * n, n, (key_length + 63) / 64), 2)(b, h, kv_idx / 64);
#endif
inline constexpr auto variant = softmax(mask(scores, chosen)) * v;
inline constexpr auto text = description<variant>;
}  // namespace my
