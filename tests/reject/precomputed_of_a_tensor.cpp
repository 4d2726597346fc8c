// rejects: precomputed(x, n, extent) takes a number; a tensor is read at indices
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto numbers = precomputed(slopes, n, heads);
#else
inline constexpr auto numbers = precomputed(slopes(n), n, heads);
#endif
inline constexpr auto variant = softmax(scores + numbers(b, h, h)) * v;
inline constexpr auto text = description<variant>;
}  // namespace my
