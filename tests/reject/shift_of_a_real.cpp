// rejects: %, ^, &, |, << and >> are for integers
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, (slopes(h) >> 1) > 0)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, (doc(kv_idx) >> 1) > 0)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
