// rejects: as_row takes a real of (b, h, q_idx), as_output one of (b, h, q_idx, d_idx)
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(lse = as_row(slopes(kv_idx / 4)));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = outputs(lse = as_row(slopes(q_idx / 4)));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
