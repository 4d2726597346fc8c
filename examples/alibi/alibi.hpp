#pragma once
#include <attune/dsl.hpp>

/// Attention with linear biases: the further back a key is, the lower its score; each head has its own slope. (Press et
/// al. 2022)
namespace alibi {
using namespace attune::dsl;

inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto scores = q * t(k) * rsqrt(depth) + slopes(h) * (kv_idx - q_idx);  // (b, h, lq, lk)
inline constexpr auto attention = softmax(mask(scores, causal)) * v;                    // (b, h, lq, dv)

}  // namespace alibi
