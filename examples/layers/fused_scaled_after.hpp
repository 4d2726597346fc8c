#pragma once
#include "fused.hpp"

/// A fused projection whose weights are divided by sqrt(width), not its scores.
namespace layers::fused {

inline constexpr auto scaled_after = merge_heads(softmax(q * t(k)) * rsqrt(width) * v);  // (b, l, e)

}  // namespace layers::fused
