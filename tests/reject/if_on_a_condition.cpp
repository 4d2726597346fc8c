// rejects: a condition has no value until the kernel runs; write where(condition, a, b) instead of if, ?: and while
#include "language.hpp"

namespace my {
#ifdef REJECT
constexpr auto modify() {
    if (q_idx >= kv_idx) return scores;
    return scores;
}
inline constexpr auto variant = softmax(modify()) * v;
#else
constexpr auto modify() { return where(q_idx >= kv_idx, scores, -inf); }
inline constexpr auto variant = softmax(modify()) * v;
#endif
}  // namespace my
