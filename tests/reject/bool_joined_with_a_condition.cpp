// rejects: a bool of C++ is the same for every query and key; a condition compares indices
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, causal && true)) * v;
inline constexpr auto text = description<variant>;
#else
// clang-format off
inline constexpr auto variant = softmax(mask(scores, causal && kv_idx >= 0)) * v;
// clang-format on
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
