// rejects: keep(p, seed) takes a probability and an integer of the whole call, literals or scalars
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = where(keep(slopes(h), 4711, 0), softmax(scores), 0) * v;
#else
inline constexpr auto variant = where(keep(scalar<"p", f32>, 4711, 0), softmax(scores), 0) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
