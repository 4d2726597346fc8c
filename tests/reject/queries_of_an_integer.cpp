// rejects: queries, keys and values form a tensor of reals; this is an integer, as_real(...) of it is a real
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(queries(d_idx) * t(k)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(queries(as_real(d_idx)) * t(k)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
