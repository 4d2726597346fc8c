// rejects: two tensors are multiplied; the contraction of q and k is written q * t(k)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * k) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(q * t(k)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
