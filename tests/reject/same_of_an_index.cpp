// rejects: same(a, b) takes two integers of the whole call
#include "layers.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(k) * as_real(same(q_idx, key_length))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(q * t(k) * as_real(same(query_length, key_length))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
