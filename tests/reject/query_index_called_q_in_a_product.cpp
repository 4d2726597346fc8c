// rejects: scores are q \* t\(k\), and the left factor is an integer
#include "language.hpp"

namespace my {
#ifdef REJECT
namespace other {
inline constexpr auto q = bound_index<"q">;
inline constexpr auto made = q * t(k);
}  // namespace other
inline constexpr auto variant = softmax(other::made) * v;
#else
inline constexpr auto variant = softmax(q * t(k)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
