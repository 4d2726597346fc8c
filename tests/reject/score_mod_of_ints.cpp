// rejects: a score_mod takes (score, b, h, q_idx, kv_idx), each as auto
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto score, int, int h, int, int) { return score + slopes(h); }));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto h, auto, auto) { return score + slopes(h); }));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
