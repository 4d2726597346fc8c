// rejects: %, ^, &, |, << and >> are for integers
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, bit(causal, kv_idx % 8))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, bit(doc(q_idx), kv_idx % 8))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
