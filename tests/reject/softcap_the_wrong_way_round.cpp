// rejects: softcap(c, scores): the cap comes first, then what it bounds
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(softcap(scores, 50.0)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(softcap(50.0, scores)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
