// rejects: an input has one to eight axes; a single number is declared with scalar<"name", type>
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + input<"bias", f32>()()) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(scores + scalar<"bias", f32>) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
