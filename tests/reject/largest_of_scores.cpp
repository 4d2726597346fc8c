// rejects: the third argument is a real or an integer known before the scores
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + largest(n, 4, scores)) * v;
#else
inline constexpr auto variant = softmax(scores + largest(n, 4, gain(n))) * v;
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my
