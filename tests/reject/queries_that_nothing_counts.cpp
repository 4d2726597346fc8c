// rejects: no input has an axis that says how many queries there are; state it: queries(formula, length)
#include "language.hpp"

namespace my {
inline constexpr auto table = input<"table", f32>(axis<"row">, depth);
inline constexpr auto row = table(q_idx, d_idx);
#ifdef REJECT
inline constexpr auto asked = queries(row);
#else
inline constexpr auto asked = queries(row, extent<0>(table));
#endif
inline constexpr auto variant = softmax(mask(asked * t(k), causal_bottom_right)) * v;
inline constexpr auto text = ir_of<variant>;
}  // namespace my
