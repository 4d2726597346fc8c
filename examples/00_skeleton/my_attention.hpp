#pragma once
#include <attune/dsl.hpp>

/// The variant: each query sees the keys up to itself, and fewer of those the further back they are.
namespace my {
using namespace attune::dsl;

inline constexpr auto slopes = input<"slopes", f32>(head);                                           // (h)
inline constexpr auto scores = q * t(k) * rsqrt(depth);                                              // (b, h, lq, lk)
inline constexpr auto attention = softmax(mask(scores + slopes(h) * (kv_idx - q_idx), causal)) * v;  // (b, h, lq, dv)

}  // namespace my
