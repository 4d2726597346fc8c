// rejects: q, k and v are inputs, too
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto i = bound_index<"k">;
inline constexpr auto variant = softmax(scores + sum(i, 4, slopes(i))) * v;
#else
inline constexpr auto i = bound_index<"i">;
inline constexpr auto variant = softmax(scores + sum(i, 4, slopes(i))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
