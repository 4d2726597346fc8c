// rejects: turn projected queries and keys; values stay as they are
#include "layers.hpp"

// Values may have another depth than what is turned.
namespace my {
inline constexpr auto cosines = input<"cosines", f32>(position, axis<"pair">);
inline constexpr auto sines = input<"sines", f32>(position, axis<"pair">);
inline constexpr auto turned = rotary_half(split, cosines, sines);
#ifdef REJECT
inline constexpr auto variant = softmax(turned * t(turned)) * turned;
#else
inline constexpr auto variant = softmax(turned * t(turned)) * split;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
