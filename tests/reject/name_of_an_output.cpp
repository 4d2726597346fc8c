// rejects: the name of an output is an identifier, as of a variable
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(output<"my out"> = softmax(scores) * v);
#else
inline constexpr auto variant = outputs(output<"my_out"> = softmax(scores) * v);
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
