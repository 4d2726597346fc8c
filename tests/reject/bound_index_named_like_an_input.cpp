// rejects: one name stands for two things in this graph
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum(bound_index<"slopes">, 4, slopes(bound_index<"slopes">))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + sum(n, 4, slopes(n))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
