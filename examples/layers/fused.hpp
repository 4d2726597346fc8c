#pragma once
#include "names.hpp"

/// One projection that makes q, k and v, one head: softmax(q k^T / sqrt(width)) v.
namespace layers::fused {

inline constexpr auto qkv = linear(x, weight<"proj_weight">, bias<"proj_bias">);  // (b, l, 3 e)
inline constexpr auto q = one_head(part<0, 3>(qkv));                              // (b, 1, l, e)
inline constexpr auto k = one_head(part<1, 3>(qkv));
inline constexpr auto v = one_head(part<2, 3>(qkv));
inline constexpr auto scores = q * t(k) * rsqrt(width);
inline constexpr auto plain = merge_heads(softmax(scores) * v);  // (b, l, e)

}  // namespace layers::fused
