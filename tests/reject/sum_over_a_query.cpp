// rejects: sum, largest, any and all run over a bound index: n = bound_index<"n">
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum(q_idx, 4, slopes(h))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + sum(n, 4, slopes(h))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
