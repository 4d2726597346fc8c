// rejects: t\(...\) transposes a tensor, and this is an integer
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto, auto, auto k) { return score + q * t(k); }));
#else
inline constexpr auto variant =
    flex(score_mod([](auto score, auto, auto, auto, auto kv) { return score + kv; }), q, k, v);
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
