// rejects: a tensor is read at indices, such as slopes(h)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + input<"bias", f32>(head, query, key)[h][q_idx]) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + input<"bias", f32>(head, query, key)[h][q_idx][kv_idx]) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
