#pragma once
#include "names.hpp"

/// Multi-head attention of three sequences, with a padding mask, an output projection, and the probabilities of every
/// head.
namespace layers::multi_head {

inline constexpr auto queries_from = input<"query", f32>(batch, query, axis<"model">);  // (b, lq, e)
inline constexpr auto keys_from = input<"key", f32>(batch, key, axis<"model">);         // (b, lk, e)
inline constexpr auto values_from = input<"value", f32>(batch, key, axis<"model">);

template <name Weight, name Bias> constexpr auto heads_of_projection(auto from) {
    return split_heads(linear(from, weight<Weight>, bias<Bias>), number_of_heads);
}

template <name OutWeight, name OutBias> constexpr auto layer(auto weights, auto values) {
    return outputs(out = linear(merge_heads(weights * values), weight<OutWeight>, bias<OutBias>),
                   output<"weights"> = weights);
}

inline constexpr auto q = heads_of_projection<"w_q_weight", "w_q_bias">(queries_from);  // (b, h, lq, d)
inline constexpr auto k = heads_of_projection<"w_k_weight", "w_k_bias">(keys_from);     // (b, h, lk, d)
inline constexpr auto v = heads_of_projection<"w_v_weight", "w_v_bias">(values_from);
inline constexpr auto scores = q * t(k) * rsqrt(depth);
inline constexpr auto cross = layer<"w_o_weight", "w_o_bias">(softmax(scores), v);
inline constexpr auto cross_padded =
    layer<"w_o_weight", "w_o_bias">(softmax(mask(scores, padding_mask(b, kv_idx) != 0)), v);

}  // namespace layers::multi_head
