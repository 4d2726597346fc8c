// rejects: the extent of a sum, any or all is one number for the whole call; what differs is said in its body
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum(n, kv_lengths(b), slopes(n))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + sum(n, key_length, where(n < kv_lengths(b), slopes(n), 0))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
