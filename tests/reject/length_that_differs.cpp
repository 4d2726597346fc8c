// rejects: the length of a computed tensor, its heads and its depth are integers of the whole call
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(keys(k(b, h, kv_idx, d_idx), b))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(q * t(keys(k(b, h, kv_idx, d_idx), extent<2>(k)))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
