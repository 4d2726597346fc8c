// rejects: weights have no channel
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = (softmax(scores) * gain(d_idx)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores) * v * gain(d_idx);
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
