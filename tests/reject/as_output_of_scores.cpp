// rejects: as_row and as_output take a number that has no keys
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = as_output(scores));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = outputs(out = as_output(slopes(h)));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
