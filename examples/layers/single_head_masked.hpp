#pragma once
#include "names.hpp"

/// Self-attention of one head with three projections, a mask, and dropout on the probabilities.
namespace layers::single_head_masked {

inline constexpr auto q = one_head(linear(x, weight<"q_weight">, bias<"q_bias">));  // (b, 1, l, e)
inline constexpr auto k = one_head(linear(x, weight<"k_weight">, bias<"k_bias">));
inline constexpr auto v = one_head(linear(x, weight<"v_weight">, bias<"v_bias">));
inline constexpr auto scores = q * t(k) * rsqrt(width);
inline constexpr auto plain = merge_heads(softmax(scores) * v);  // (b, l, e)
inline constexpr auto masked = merge_heads(softmax(mask(scores, pair_mask(b, q_idx, kv_idx) != 0)) * v);
inline constexpr auto dropout = merge_heads(kept(softmax(scores), dropped_pairs(b, q_idx, kv_idx)) * v);

}  // namespace layers::single_head_masked
