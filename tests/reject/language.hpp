#pragma once
#include <attune/dsl.hpp>

// What the wrong programs of this folder are written with.
namespace my {
using namespace attune::dsl;
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto doc = input<"doc", i32>(position);
inline constexpr auto gain = input<"gain", f32>(depth);
inline constexpr auto more_keys = input<"more_keys", f32>(batch, key_head, key, depth);
inline constexpr auto n = bound_index<"n">;
inline constexpr auto scores = q * t(k) * rsqrt(depth);
}  // namespace my
