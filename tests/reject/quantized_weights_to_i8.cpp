// rejects: quantized<u8>(weights) rounds weights to 255 steps, quantized<i16> to 32767
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = quantized<i8>(softmax(scores)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = quantized<u8>(softmax(scores)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my
