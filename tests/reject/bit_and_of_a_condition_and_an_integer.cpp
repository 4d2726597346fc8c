// rejects: ~, << and >> are for integers; of two conditions &, | and ^ are the logical ones
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, causal& kv_idx)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, causal&(kv_idx > 0))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
