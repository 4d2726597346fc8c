#pragma once
#include "names.hpp"

/// Several heads of one fused projection, scaled by the width of the model rather than of a head, and not projected
/// again.
namespace layers::fused_heads {

inline constexpr auto qkv = linear(x, weight<"proj_weight">, bias<"proj_bias">);  // (b, l, 3 e)
inline constexpr auto q = split_heads(part<0, 3>(qkv), number_of_heads);          // (b, h, l, d)
inline constexpr auto k = split_heads(part<1, 3>(qkv), number_of_heads);
inline constexpr auto v = split_heads(part<2, 3>(qkv), number_of_heads);
inline constexpr auto scores = q * t(k) * rsqrt(width);
inline constexpr auto plain = merge_heads(softmax(scores) * v);  // (b, l, e)
inline constexpr auto masked = merge_heads(softmax(mask(scores, pair_mask(b, q_idx, kv_idx) != 0)) * v);
inline constexpr auto dropout = merge_heads(kept(softmax(scores), dropped(b, h, q_idx, kv_idx)) * v);

}  // namespace layers::fused_heads
