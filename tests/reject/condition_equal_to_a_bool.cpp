// rejects: a bool of C.. is the same for every query and key
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, causal != true)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, causal != (kv_idx > 3))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
