#pragma once
#include "names.hpp"

/// Heads that share one projection, or have none; hidden pairs score -1e20 before the division, so that a row without a
/// visible key is the mean of all values; an output projection.
namespace layers::per_head_projection {

inline constexpr auto values_from = input<"values", f32>(batch, key, axis<"model">);    // (b, lk, e)
inline constexpr auto keys_from = input<"keys", f32>(batch, key, axis<"model">);        // (b, lk, e)
inline constexpr auto queries_from = input<"query", f32>(batch, query, axis<"model">);  // (b, lq, e)

constexpr auto out_of(auto scores, auto values) {
    return linear(merge_heads(softmax(scores / sqrt(number_of_heads * depth)) * values), weight<"fc_out_weight">,
                  bias<"fc_out_bias">);  // (b, lq, e)
}
constexpr auto hidden(auto scores) { return where(shared_pair_mask(b, h, q_idx, kv_idx) != 0, scores, -1e20); }

inline constexpr auto q = split_heads(queries_from, number_of_heads);  // (b, h, lq, d)
inline constexpr auto k = split_heads(keys_from, number_of_heads);     // (b, h, lk, d)
inline constexpr auto v = split_heads(values_from, number_of_heads);
inline constexpr auto plain = out_of(q * t(k), v);
inline constexpr auto masked = out_of(hidden(q * t(k)), v);
inline constexpr auto projected =
    out_of(hidden(linear(q, weight<"queries_weight">) * t(linear(k, weight<"keys_weight">))),
           linear(v, weight<"values_weight">));

}  // namespace layers::per_head_projection
