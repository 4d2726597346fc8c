// rejects: the gradient of this graph is too long
#include "language.hpp"

namespace my {
inline constexpr auto m = bound_index<"m">;
inline constexpr auto i = bound_index<"i">;
inline constexpr auto j = bound_index<"j">;
inline constexpr auto table = input<"table", f32>(axis<"n">, axis<"m">, axis<"i">, axis<"j">);
#ifdef REJECT
inline constexpr auto seen = scores + sum(n, 2, sum(m, 2, sum(i, 2, sum(j, 2, table(n, m, i, j)))));
#else
inline constexpr auto seen = scores + sum(m, 2, sum(i, 2, sum(j, 2, table(0, m, i, j))));
#endif
inline constexpr auto variant = gradient(outputs(out = softmax(seen) * v, lse = log_sum_exp(seen)));
inline constexpr auto text = ir_of<variant>;
}  // namespace my
