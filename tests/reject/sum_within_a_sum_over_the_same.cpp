// rejects: a sum, an any or precomputed within another runs over the same bound index; give it an index of its own
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum(n, 2, sum(n, 3, slopes(n)))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + sum(bound_index<"m">, 2, sum(n, 3, slopes(n)))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
