// rejects: the extent of a sum, any or all is one number for the whole call; what differs is said in its body
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum(n, q_idx, slopes(n))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + sum(n, heads, where(n < q_idx, slopes(n), 0))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
