#pragma once
#include <attune/dsl.hpp>

/// The graphs of the golden gradients, a name a stem, and their gradients, <stem>_gradient.
namespace golden_gradients {

using namespace attune::dsl;

inline constexpr auto scale = scalar<"scale", f32>;
inline constexpr auto x = q * t(k) * scale;
inline constexpr auto w = scalar<"w", i32>;
inline constexpr auto cap = scalar<"cap", f32>;
inline constexpr auto p = scalar<"p", f32>;
inline constexpr auto c = scalar<"c", f32>;

/// softmax(s) v, and the log-sum-exp that its gradient needs.
constexpr auto attention(expression auto s) { return outputs(out = softmax(s) * v, lse = log_sum_exp(s)); }

// --- masks and shapes
inline constexpr auto full = attention(x);
inline constexpr auto causal_only = attention(mask(x, causal));
inline constexpr auto at_the_end = attention(mask(x, causal_bottom_right));
inline constexpr auto windowed = attention(mask(x, window(w, 0)));
inline constexpr auto doc_id = input<"doc_id", i32>(batch, position);
inline constexpr auto documents = attention(mask(x, doc_id(b, q_idx) == doc_id(b, kv_idx) && causal));
inline constexpr auto prefix = input<"prefix", i32>(batch);
inline constexpr auto prefix_lm = attention(mask(x, kv_idx < prefix(b) || causal));
inline constexpr auto g = scalar<"g", i32>;
inline constexpr auto global_window = attention(mask(x, abs(q_idx - kv_idx) <= w || q_idx < g || kv_idx < g));
inline constexpr auto visible = input<"mask", boolean>(batch, head, query, key);
inline constexpr auto empty_rows = attention(mask(x, visible(b, h, q_idx, kv_idx)));

// --- a number a head
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto alibi = attention(mask(x + slopes(h) * (kv_idx - q_idx), causal));
inline constexpr auto of_heads = input<"head_scale", f32>(head);
inline constexpr auto head_scale = attention(mask(x * of_heads(h), causal));
inline constexpr auto heat = input<"temperature", f32>(head);
inline constexpr auto temperature = attention(x * exp(heat(h)));

// --- biases and tables
inline constexpr auto bias_bhqk = input<"bias", f32>(batch, head, query, key);
inline constexpr auto bias_hqk = input<"bias", f32>(head, query, key);
inline constexpr auto bias_qk = input<"bias", f32>(query, key);
inline constexpr auto bias_bhk = input<"bias", f32>(batch, head, key);
inline constexpr auto bias_hq = input<"bias", f32>(head, query);
inline constexpr auto bias_batch_heads = attention(x + bias_bhqk(b, h, q_idx, kv_idx));
inline constexpr auto bias_heads = attention(mask(x + bias_hqk(h, q_idx, kv_idx), causal_bottom_right));
inline constexpr auto bias_shared = attention(mask(x + bias_qk(q_idx, kv_idx), window(w, 0)));
inline constexpr auto bias_keys = attention(x + bias_bhk(b, h, kv_idx));
inline constexpr auto bias_queries = attention(softcap(cap, x + bias_hq(h, q_idx)));
inline constexpr auto table = input<"table", f32>(head, axis<"distance">);
inline constexpr auto R = scalar<"R", i32>;
inline constexpr auto relative_table = attention(x + table(h, min(max(q_idx - kv_idx + R, 0), 2 * R)));
inline constexpr auto bucket_table = input<"table", f32>(axis<"bucket">, head);
inline constexpr auto buckets = input<"buckets", i32>(axis<"distance">);
inline constexpr auto t5_buckets =
    attention(x + bucket_table(buckets(min(max(q_idx - kv_idx + scalar<"N", i32> - 1, 0), extent<0>(buckets) - 1)), h));

// --- functions of the score
inline constexpr auto softcapped = attention(mask(softcap(cap, x), causal));
inline constexpr auto squared = attention(mask(x * x, causal));
inline constexpr auto silu = attention(x / (1 + exp(-x)));
inline constexpr auto where_score =
    attention(mask(where((q_idx + kv_idx) % scalar<"m", i32> == 0 || x > 0, x, c* x), causal));
inline constexpr auto relu_score = attention(max(x, 0.0));
inline constexpr auto clamped = attention(mask(min(max(x, scalar<"lo", f32>), scalar<"hi", f32>) - c * abs(x), causal));
inline constexpr auto gelu_log =
    attention(mask(log(x * (1 + erf(x / 1.4142135623730951)) / 2 + scalar<"offset", f32>), causal));

// --- what q and k become before they meet
inline constexpr auto n = bound_index<"n">;
inline constexpr auto m = bound_index<"m">;
inline constexpr auto unit_q =
    queries(q(b, h, q_idx, d_idx) * rsqrt(sum(n, depth, q(b, h, q_idx, n) * q(b, h, q_idx, n))));
inline constexpr auto unit_k =
    keys(k(b, h, kv_idx, d_idx) * rsqrt(sum(m, depth, k(b, h, kv_idx, m) * k(b, h, kv_idx, m))));
inline constexpr auto cosine = attention(unit_q * t(unit_k) * exp(min(heat(h), scalar<"limit", f32>)));
inline constexpr auto q_rope = input<"q_rope", f32>(batch, head, query, axis<"rope">);
inline constexpr auto k_rope = input<"k_rope", f32>(batch, key, axis<"rope">);
inline constexpr auto mla_rope = attention(
    mask((q * t(k) + sum(n, extent<2>(k_rope), q_rope(b, h, q_idx, n) * k_rope(b, kv_idx, n))) * scale, causal));
inline constexpr auto cosines = input<"cos", f32>(position, axis<"pair">);
inline constexpr auto sines = input<"sin", f32>(position, axis<"pair">);
inline constexpr auto rope =
    attention(mask(queries(rotary_half(q, cosines, sines)) * t(keys(rotary_half(k, cosines, sines))) * scale, causal));
inline constexpr auto of_keys = input<"key_scale", f32>(key_head, key);
inline constexpr auto key_scale = attention(x * of_keys(h, kv_idx));
/// Sums of keys for a group of heads, and for each head.
inline constexpr auto scaled_and_biased = attention(x * of_keys(h, kv_idx) + bias_bhk(b, h, kv_idx));
inline constexpr auto k_codes = input<"k_codes", u8>(batch, key_head, key, depth);
inline constexpr auto v_codes = input<"v_codes", u8>(batch, key_head, key, value_depth);
inline constexpr auto k_scales = input<"key_scale", f32>(batch, key_head, key);
inline constexpr auto v_scales = input<"value_scale", f32>(batch, key_head, key);
inline constexpr auto cache = mask(
    q * t(keys((as_real(k_codes(b, h, kv_idx, d_idx)) - 128) * k_scales(b, h, kv_idx))) * scale, causal_bottom_right);
inline constexpr auto quantised_cache =
    outputs(out = softmax(cache) * values((as_real(v_codes(b, h, kv_idx, d_idx)) - 128) * v_scales(b, h, kv_idx)),
            lse = log_sum_exp(cache));

// --- other denominators, weights, outputs
inline constexpr auto sinks = input<"sink", f32>(head);
constexpr auto with_sink(expression auto s) {
    return outputs(out = softmax(s, sinks(h)) * v, lse = log_sum_exp(s, sinks(h)));
}
inline constexpr auto sink = with_sink(mask(x, causal));
inline constexpr auto end_scores = mask(x, causal_bottom_right);
inline constexpr auto sink_two_lse =
    outputs(out = softmax(end_scores, sinks(h)) * v, lse = log_sum_exp(end_scores, sinks(h)),
            output<"lse_keys"> = log_sum_exp(end_scores));
inline constexpr auto dropout_keep = input<"dropout_keep", boolean>(batch, head, query, key);
constexpr auto dropped(expression auto weights) {
    return where(dropout_keep(b, h, q_idx, kv_idx), weights, 0) / (1 - p);
}
inline constexpr auto causal_scores = mask(x, causal);
inline constexpr auto dropout = outputs(out = dropped(softmax(causal_scores)) * v, lse = log_sum_exp(causal_scores));
inline constexpr auto head_offset = input<"head_offset", f32>(head);
inline constexpr auto sigmoid_weights = unnormalized(mask(sigmoid(x + head_offset(h)), causal)) * v;
inline constexpr auto relu_weights = unnormalized(mask(max(x, 0.0), causal));
inline constexpr auto numerator = relu_weights * v;
inline constexpr auto total = row_sum(relu_weights);
inline constexpr auto relu_normalised = outputs(out = numerator / max(total, scalar<"least", f32>),
                                                output<"numerator"> = numerator, output<"total"> = total);
inline constexpr auto gates = input<"gate", f32>(batch, head, query, value_depth);
inline constexpr auto gate = outputs(out = softmax(x) * v / (1 + exp(-gates(b, h, q_idx, d_idx))),
                                     output<"attended"> = softmax(x) * v, lse = log_sum_exp(x));
inline constexpr auto factor = input<"factor", f32>(head, query, key);
inline constexpr auto weight_factor =
    outputs(out = softmax(causal_scores) * factor(h, q_idx, kv_idx) * v, lse = log_sum_exp(causal_scores));
inline constexpr auto importance = input<"importance", f32>(batch, key);
inline constexpr auto important = softmax(causal_scores) * importance(b, kv_idx);
inline constexpr auto renormalised =
    outputs(out = important * v / row_sum(important), output<"numerator"> = important * v,
            output<"total"> = row_sum(important), lse = log_sum_exp(causal_scores));
inline constexpr auto gain = input<"gain", f32>(batch);
inline constexpr auto biased = x * gain(b) + slopes(h) * (kv_idx - q_idx);
inline constexpr auto combined_scores =
    mask(biased * rsqrt(1 + (biased / cap) * (biased / cap)), doc_id(b, q_idx) == doc_id(b, kv_idx) && window(w, 0));
inline constexpr auto combined =
    outputs(out = dropped(softmax(combined_scores, sinks(h))) * v, lse = log_sum_exp(combined_scores, sinks(h)));

inline constexpr auto full_gradient = gradient(full);
inline constexpr auto causal_gradient = gradient(causal_only);
inline constexpr auto lse_gradient = gradient(causal_only, of(out, lse));
inline constexpr auto full_lse_gradient = gradient(full, of(out, lse));
inline constexpr auto at_the_end_gradient = gradient(at_the_end);
inline constexpr auto windowed_gradient = gradient(windowed);
inline constexpr auto documents_gradient = gradient(documents);
inline constexpr auto prefix_lm_gradient = gradient(prefix_lm);
inline constexpr auto global_window_gradient = gradient(global_window);
inline constexpr auto empty_rows_gradient = gradient(empty_rows);
inline constexpr auto alibi_gradient = gradient(alibi);
inline constexpr auto head_scale_gradient = gradient(head_scale);
inline constexpr auto temperature_gradient = gradient(temperature);
inline constexpr auto bias_batch_heads_gradient = gradient(bias_batch_heads);
inline constexpr auto bias_heads_gradient = gradient(bias_heads);
inline constexpr auto bias_shared_gradient = gradient(bias_shared);
inline constexpr auto bias_keys_gradient = gradient(bias_keys);
inline constexpr auto scaled_and_biased_gradient = gradient(scaled_and_biased);
inline constexpr auto bias_queries_gradient = gradient(bias_queries);
inline constexpr auto relative_table_gradient = gradient(relative_table);
inline constexpr auto t5_buckets_gradient = gradient(t5_buckets);
inline constexpr auto softcapped_gradient = gradient(softcapped);
inline constexpr auto squared_gradient = gradient(squared);
inline constexpr auto silu_gradient = gradient(silu);
inline constexpr auto where_score_gradient = gradient(where_score);
inline constexpr auto relu_score_gradient = gradient(relu_score);
inline constexpr auto clamped_gradient = gradient(clamped);
inline constexpr auto gelu_log_gradient = gradient(gelu_log);
inline constexpr auto cosine_gradient = gradient(cosine);
inline constexpr auto mla_rope_gradient = gradient(mla_rope);
inline constexpr auto rope_gradient = gradient(rope, wrt(q, k, v));
inline constexpr auto key_scale_gradient = gradient(key_scale);
inline constexpr auto quantised_cache_gradient = gradient(quantised_cache);
inline constexpr auto sink_gradient = gradient(sink);
inline constexpr auto sink_two_lse_gradient = gradient(sink_two_lse, of(out, lse, output<"lse_keys">));
inline constexpr auto dropout_gradient = gradient(dropout);
inline constexpr auto sigmoid_gradient = gradient(sigmoid_weights);
inline constexpr auto relu_normalised_gradient = gradient(relu_normalised, of(out));
inline constexpr auto gate_gradient = gradient(gate, of(out));
inline constexpr auto weight_factor_gradient = gradient(weight_factor);
inline constexpr auto renormalised_gradient = gradient(renormalised, of(out));
inline constexpr auto combined_gradient = gradient(combined, of(out, lse));

}  // namespace golden_gradients
