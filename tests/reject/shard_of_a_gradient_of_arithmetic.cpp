// rejects: arithmetic after the sum belongs after the last call
#include "language.hpp"

namespace my {
inline constexpr auto gates = input<"gate", f32>(batch, head, query, value_depth);
inline constexpr auto sum = softmax(scores) * v;
#ifdef REJECT
inline constexpr auto forward =
    outputs(out = sum * gates(b, h, q_idx, d_idx), output<"sum"> = sum, lse = log_sum_exp(scores));
inline constexpr auto variant = shard(gradient(forward, of(out)));
#else
inline constexpr auto forward = outputs(out = sum, lse = log_sum_exp(scores));
inline constexpr auto variant = shard(gradient(forward, of(out)));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
