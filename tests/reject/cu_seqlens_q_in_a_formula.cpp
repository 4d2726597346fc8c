// rejects: cu_seqlens_q is passed to a call and not read by a formula
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, kv_idx <= q_idx - cu_seqlens_q(b))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, kv_idx <= q_idx + kv_lengths(b))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
