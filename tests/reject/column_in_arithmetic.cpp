// rejects: arithmetic on something that is not a number
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = sum_over_queries(softmax(scores)) / query_length);
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = outputs(out = sum_over_queries(softmax(scores)));
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
