#pragma once
#include "names.hpp"

/// One projection that makes q, k and v; a mask; dropout on the probabilities; an output projection. One head.
namespace layers::fused {

inline constexpr auto qkv = linear(x, weight<"proj_weight">, bias<"proj_bias">);  // (b, l, 3 e)
inline constexpr auto q = one_head(part<0, 3>(qkv));                              // (b, 1, l, e)
inline constexpr auto k = one_head(part<1, 3>(qkv));
inline constexpr auto v = one_head(part<2, 3>(qkv));
inline constexpr auto scores = q * t(k) * rsqrt(width);
inline constexpr auto masked_scores = mask(scores, pair_mask(b, q_idx, kv_idx) != 0);
inline constexpr auto dropped_weights = kept(softmax(masked_scores), dropped_pairs(b, q_idx, kv_idx));

inline constexpr auto plain = merge_heads(softmax(scores) * v);  // (b, l, e)
inline constexpr auto masked = merge_heads(softmax(masked_scores) * v);
inline constexpr auto dropout = merge_heads(dropped_weights * v);
inline constexpr auto scaled_after = merge_heads(softmax(q * t(k)) * rsqrt(width) * v);  // the weights are divided, not the scores

constexpr auto projected(auto attention) { return linear(attention, weight<"output_proj_weight">, bias<"output_proj_bias">); }
inline constexpr auto masked_projected = projected(masked);
inline constexpr auto dropout_projected = projected(dropout);

}  // namespace layers::fused
