#pragma once
#include "multi_head.hpp"

/// Multi-head attention of a sequence with itself, with a padding mask, an output projection, and the probabilities of
/// every head.
namespace layers::self_attention {

inline constexpr auto q =
    multi_head::heads_of_projection<"multihead_attn_w_q_weight", "multihead_attn_w_q_bias">(x);  // (b, h, l, d)
inline constexpr auto k = multi_head::heads_of_projection<"multihead_attn_w_k_weight", "multihead_attn_w_k_bias">(x);
inline constexpr auto v = multi_head::heads_of_projection<"multihead_attn_w_v_weight", "multihead_attn_w_v_bias">(x);
inline constexpr auto scores = q * t(k) * rsqrt(depth);
inline constexpr auto plain =
    multi_head::layer<"multihead_attn_w_o_weight", "multihead_attn_w_o_bias">(softmax(scores), v);
inline constexpr auto padded = multi_head::layer<"multihead_attn_w_o_weight", "multihead_attn_w_o_bias">(
    softmax(mask(scores, padding_mask(b, kv_idx) != 0)), v);

}  // namespace layers::self_attention
