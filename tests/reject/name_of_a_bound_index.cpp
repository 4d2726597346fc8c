// rejects: the name of a bound index is an identifier, as of a variable
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum(bound_index<"1st">, 4, slopes(h))) * v;
#else
inline constexpr auto variant = softmax(scores + sum(bound_index<"first">, 4, slopes(h))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
