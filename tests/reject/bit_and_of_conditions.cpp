// rejects: %, ^, &, |, << and >> are for integers; conditions are joined with &&, || and !
#include "language.hpp"

namespace my {
#ifdef REJECT
// clang-format off
inline constexpr auto variant = softmax(mask(scores, causal & (kv_idx > 0))) * v;
// clang-format on
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, causal && (kv_idx > 0))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
