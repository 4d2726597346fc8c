// rejects: a graph has at most 8 softmaxes
#include "language.hpp"

namespace my {
template <int width> inline constexpr auto of = softmax(mask(scores, kv_idx > q_idx - width)) * v;
#ifdef REJECT
inline constexpr auto variant = of<1> + of<2> + of<3> + of<4> + of<5> + of<6> + of<7> + of<8> + of<9>;
#else
inline constexpr auto variant = of<1> + of<2> + of<3> + of<4> + of<5> + of<6> + of<7> + of<8>;
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
