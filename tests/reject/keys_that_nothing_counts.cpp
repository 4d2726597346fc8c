// rejects: no input has an axis that says how many keys there are; state it: keys(formula, length)
#include "language.hpp"

namespace my {
inline constexpr auto pool = input<"pool", f32>(axis<"row">, depth);
inline constexpr auto row = pool(kv_idx, d_idx);
#ifdef REJECT
inline constexpr auto paged = keys(row);
#else
inline constexpr auto paged = keys(row, extent<0>(pool));
#endif
inline constexpr auto variant = softmax(q * t(paged)) * values(row);
inline constexpr auto text = ir_of<variant>;
}  // namespace my
