// rejects: precomputed takes a number and one to four bound indices, each with its extent
#include "language.hpp"

namespace my {
inline constexpr auto m = bound_index<"m">;
#ifdef REJECT
inline constexpr auto numbers = precomputed(as_real(n * m), n, 4, m);
#else
inline constexpr auto numbers = precomputed(as_real(n * m), n, 4, m, 4);
#endif
inline constexpr auto variant = softmax(scores + numbers(b, h, 1, 2)) * v;
inline constexpr auto text = description<variant>;
}  // namespace my
