// rejects: scores meet a row or an output; those are known only after all scores of a row
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, row_maximum(scores) > q_idx)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(scores, scores > q_idx)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
