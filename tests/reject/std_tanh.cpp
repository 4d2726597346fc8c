// rejects at length: its functions are written without std::, as in tanh
#include "language.hpp"

#include <cmath>

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(std::tanh(scores)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(tanh(scores)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
