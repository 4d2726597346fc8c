// rejects: a row or an output meets what differs from key to key
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(lse = log_sum_exp(scores) + kv_idx);
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = outputs(lse = log_sum_exp(scores + kv_idx));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
