// rejects: one name stands for two things in this graph
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + input<"cu_seqlens_q", f32>(head)(h)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + input<"cu_seqlens", f32>(head)(h)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
