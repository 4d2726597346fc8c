// rejects: softmax(scores, sink): the sink is one number for each (b, h, q_idx), such as sinks(h)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores, scores) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores, slopes(h)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
