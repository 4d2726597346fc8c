#pragma once
#include "common.hpp"

/// Other denominators, other weights, other outputs, other keys.
namespace golden {

inline constexpr auto sink = input<"sink", f32>(head);
template <class Scores> constexpr auto attention_with_sink(Scores s) {
    return outputs(out = catalogue::with_sink(s, sink), lse = log_sum_exp(s, sink(h)));
}
inline constexpr auto conv_sink = attention_with_sink(mask(scores, causal));
inline constexpr auto conv_sink_empty_rows = attention_with_sink(mask(scores, causal_bottom_right));

inline constexpr auto dropout_keep = input<"dropout_keep", boolean>(batch, head, query, key);
inline constexpr auto causal_scores = mask(scores, causal);
inline constexpr auto conv_dropout_keep = outputs(
    out = catalogue::with_dropout(causal_scores, dropout_keep, scalar<"p", f32>), lse = log_sum_exp(causal_scores));

inline constexpr auto conv_extra_outputs = outputs(
    out = softmax(causal_scores) * v, lse = log_sum_exp(causal_scores), output<"weights"> = softmax(causal_scores),
    output<"scores"> = scores, output<"lse_log2"> = catalogue::log2_sum_exp(causal_scores),
    output<"row_max"> = row_maximum(causal_scores));

inline constexpr auto offset = scalar<"offset", f32>;
inline constexpr auto score_activation_relu = attention(catalogue::as_score(relu(scores), offset));
inline constexpr auto score_activation_gelu = attention(catalogue::as_score(gelu(scores), offset));
inline constexpr auto score_activation_sigmoid = attention(catalogue::as_score(sigmoid(scores), offset));
template <class Activated> constexpr auto as_they_are(Activated weights) {
    return outputs(output<"out_activation"> = catalogue::activation_attention(weights));
}
inline constexpr auto activation_relu = as_they_are(relu(scores));
inline constexpr auto activation_gelu = as_they_are(gelu(scores));
inline constexpr auto activation_sigmoid = as_they_are(sigmoid(scores));

/// Two attentions over different keys, made one.
inline constexpr auto out_a = input<"out_a", f32>(batch, head, query, value_depth);
inline constexpr auto out_b = input<"out_b", f32>(batch, head, query, value_depth);
inline constexpr auto lse_a = input<"lse_a", f32>(batch, head, query);
inline constexpr auto lse_b = input<"lse_b", f32>(batch, head, query);
inline constexpr auto merged =
    merge(state(out_a(b, h, q_idx, d_idx), lse_a(b, h, q_idx)), state(out_b(b, h, q_idx, d_idx), lse_b(b, h, q_idx)));
inline constexpr auto conv_merge = outputs(out = merged.out, lse = merged.lse);

/// A window of one tensor and chosen tokens of another; keys are values.
inline constexpr auto local_kv = input<"local_kv", f32>(batch, key_head, axis<"local">, depth);
inline constexpr auto sparse_kv = input<"sparse_kv", f32>(batch, key_head, axis<"sparse">, depth);
inline constexpr auto kv_indices = input<"kv_indices", i32>(batch, query, axis<"listed">);
inline constexpr auto doc_of_token = input<"doc_id", i32>(axis<"token">);
inline constexpr auto both = catalogue::joined_keys(local_kv, sparse_kv);
inline constexpr auto both_length = catalogue::joined_length(local_kv, sparse_kv);
inline constexpr auto selected_scores =
    catalogue::selected(q * t(keys(both, both_length)) * scale, local_kv, kv_indices, w, doc_of_token);
inline constexpr auto conv_selected_attention = outputs(
    out = softmax(selected_scores, sink(h)) * values(both, both_length), lse = log_sum_exp(selected_scores, sink(h)));

}  // namespace golden
