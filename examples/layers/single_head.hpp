#pragma once
#include "names.hpp"

/// Self-attention of one head with three projections: softmax(q k^T / sqrt(width)) v.
namespace layers::single_head {

inline constexpr auto q = one_head(linear(x, weight<"query_proj_weight">, bias<"query_proj_bias">));  // (b, 1, l, e)
inline constexpr auto k = one_head(linear(x, weight<"key_proj_weight">, bias<"key_proj_bias">));
inline constexpr auto v = one_head(linear(x, weight<"value_proj_weight">, bias<"value_proj_bias">));
inline constexpr auto layer = merge_heads(softmax(q * t(k) * rsqrt(width)) * v);  // (b, l, e)

}  // namespace layers::single_head
