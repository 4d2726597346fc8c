// rejects: two tensors are contracted over different axes; scores are q * t(k)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(v)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(q * t(k)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
