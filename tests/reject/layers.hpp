#pragma once
#include "language.hpp"

#include <attune/dsl/layers.hpp>

// A sequence and what a layer projects it with.
namespace my {
inline constexpr auto x = input<"x", f32>(batch, position, axis<"model">);
inline constexpr auto w = input<"w", f32>(axis<"out">, axis<"in">);
inline constexpr auto shift = input<"shift", f32>(axis<"model">);
inline constexpr auto projected = linear(x, w, shift);
inline constexpr auto split = split_heads(projected, 4);
}  // namespace my
