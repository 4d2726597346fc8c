#pragma once
#include "variants.hpp"

/// Graphs of functions that no golden file has, and their gradients, <name>_gradient.
namespace golden_gradients {

inline constexpr auto circular =
    attention(sin(x) + cos(x) + atan(x) + tan(0.3 * tanh(x)) + asin(0.9 * tanh(x)) + acos(0.8 * tanh(x)));
inline constexpr auto hyperbolic =
    attention(sinh(0.5 * x) + cosh(0.4 * x) + exp2(0.5 * x) + expm1(0.3 * x) + log1p(x * x) + log2(1 + x * x));
inline constexpr auto powers = attention(pow(x * x + 1, 1.5) + pow(x, 2) + pow(x, 3) * 0.1 + pow(x, 1) + pow(x, 0) +
                                         pow(exp(0.1 * x), slopes(h)) + pow(abs(slopes(h)), 1 + x * x));
inline constexpr auto of_two = attention(atan2(x, 3 + slopes(h)) + fmod(3 + 0.02 * x, 0.8 + 0.001 * slopes(h)));
/// Their slope is 0: the table's gradient is what they are, and they are nowhere near a jump.
inline constexpr auto steps = attention(
    x + slopes(h) * kv_idx * (floor(0.01 * x + 1.25) + round(0.01 * x + 1.25) + trunc(0.01 * x + 1.25) + sign(x + 50)));
/// A function that has a number where its argument is masked, in pairs that another branch sees.
inline constexpr auto masked_inside =
    attention(where((q_idx + kv_idx) % 2 == 0, atan(where(causal&& kv_idx != 1, x, -inf)), x));
constexpr auto seen_by_some(std::int64_t rest, expression auto s) {
    return where((q_idx + kv_idx) % 3 != rest, s, -inf);
}
/// A slope that multiplies masked scores and has another way to the output: the pairs that are masked lose the one way
/// and keep the other.
inline constexpr auto masked_factor = unnormalized(tanh(seen_by_some(0, x) * slopes(h))) * cosh(slopes(h)) * v;
inline constexpr auto masked_weights =
    outputs(out = softmax(x) * seen_by_some(1, 1.0 + slopes(h)) * v, lse = log_sum_exp(x));
/// A bias that masks, times a slope that another factor reads, too.
inline constexpr auto masking_bias = input<"masking_bias", f32>(query, key);
inline constexpr auto seen_bias = seen_by_some(2, masking_bias(q_idx, kv_idx));
inline constexpr auto masked_bias = unnormalized(atan(seen_bias * slopes(h)) + x) * exp(slopes(h)) * v;
/// Weights that are the masked scores themselves, and values that are read twice.
inline constexpr auto square_of_v = values(v(b, h, kv_idx, d_idx) * v(b, h, kv_idx, d_idx));
inline constexpr auto squared_values = unnormalized(mask(max(x, 0.0), causal)) * square_of_v;
/// Rows that are masked in one output and not in another one.
inline constexpr auto of_row = input<"of_row", f32>(batch, head, query);
inline constexpr auto of_some_rows = where(q_idx % 3 != 1, of_row(b, h, q_idx), -inf);
inline constexpr auto of_importance = softmax(x) * importance(b, kv_idx);
inline constexpr auto masked_rows =
    outputs(out = of_importance * v * of_some_rows, output<"numerator"> = of_importance * v,
            output<"total"> = row_sum(of_importance), lse = log_sum_exp(x));
inline constexpr auto functions =
    attention(mask(sin(x) + atan(x) + exp2(0.5 * x) + log1p(x * x) + pow(x, 2) * 0.1 + sigmoid(x), causal));
/// Scores of a query's and a key's numbers by more than products.
inline constexpr auto of_queries = input<"of_queries", f32>(batch, head, query, axis<"rope">);
inline constexpr auto of_every_key = input<"of_every_key", f32>(batch, key, axis<"rope">);
inline constexpr auto of_features = input<"of_features", f32>(axis<"rope">);
inline constexpr auto additive = attention(mask(
    x + sum(n, extent<0>(of_features), of_features(n) * tanh(of_queries(b, h, q_idx, n) + of_every_key(b, kv_idx, n))),
    causal));

/// Several tensors of pairs: with keys last, with queries last, and one whose rows two queries share.
inline constexpr auto factor_of_pair = input<"factor_of_pair", f32>(head, query, key);
inline constexpr auto of_key_and_query = input<"of_key_and_query", f32>(key, query);
inline constexpr auto of_two_queries = input<"of_two_queries", f32>(axis<"rows">, key);
inline constexpr auto pairs = attention(
    mask(x * factor_of_pair(h, q_idx, kv_idx) + of_key_and_query(kv_idx, q_idx) + of_two_queries(q_idx / 2, kv_idx),
         causal_bottom_right));

/// Norms of rotated rows that nothing projects: their sums over the channels are reached from two sides.
inline constexpr auto gain_of_channel = input<"gain", f32>(axis<"channel">);
inline constexpr auto rotated_norms =
    attention(mask(queries(rotary_half(rms_norm(q, gain_of_channel, 1e-6), cosines, sines)) *
                       t(keys(rotary_half(rms_norm(k, gain_of_channel, 1e-6), cosines, sines))) * scale,
                   causal));

/// Keys that an index names one by one, and a number beside each, by which it was chosen.
inline constexpr auto chosen = input<"chosen", i32>(batch, axis<"place">);
inline constexpr auto chosen_by = input<"chosen_by", f32>(batch, axis<"place">);
inline constexpr auto k_pool = input<"k_pool", f32>(axis<"slot">, key_head, depth);
inline constexpr auto v_pool = input<"v_pool", f32>(axis<"slot">, key_head, value_depth);
inline constexpr auto scores_of_chosen =
    q * t(keys(k_pool(chosen(b, kv_idx), h, d_idx), extent<1>(chosen))) * scale + chosen_by(b, kv_idx);
inline constexpr auto by_index =
    outputs(out = softmax(scores_of_chosen) * values(v_pool(chosen(b, kv_idx), h, d_idx), extent<1>(chosen)),
            lse = log_sum_exp(scores_of_chosen));

inline constexpr auto circular_gradient = gradient(circular);
inline constexpr auto hyperbolic_gradient = gradient(hyperbolic);
inline constexpr auto powers_gradient = gradient(powers);
inline constexpr auto of_two_gradient = gradient(of_two);
inline constexpr auto steps_gradient = gradient(steps);
inline constexpr auto masked_inside_gradient = gradient(masked_inside);
inline constexpr auto masked_factor_gradient = gradient(masked_factor);
inline constexpr auto masked_bias_gradient = gradient(masked_bias);
inline constexpr auto squared_values_gradient = gradient(squared_values);
inline constexpr auto masked_rows_gradient = gradient(masked_rows, of(out, output<"total">));
inline constexpr auto masked_weights_gradient = gradient(masked_weights);
inline constexpr auto rotated_norms_gradient = gradient(rotated_norms);
inline constexpr auto functions_gradient = gradient(functions);
inline constexpr auto additive_gradient = gradient(additive);
inline constexpr auto pairs_gradient = gradient(pairs);
inline constexpr auto by_index_gradient = gradient(by_index);

// Some with kernels of bf16.
inline constexpr auto causal_in_bf16_gradient = gradient(causal_only);
inline constexpr auto alibi_in_bf16_gradient = gradient(alibi, of(out, lse));
inline constexpr auto rope_in_bf16_gradient = gradient(rope, wrt(q, k, v));

}  // namespace golden_gradients
