#pragma once
#include "common.hpp"

/// Modifications of the scores.
namespace golden {

inline constexpr auto distance = abs(q_idx - kv_idx);
inline constexpr auto cap = scalar<"cap", f32>;
inline constexpr auto c = scalar<"c", f32>;

inline constexpr auto score_softcap = attention(softcap(cap, scores));
inline constexpr auto conv_softcap_then_mask = attention(mask(softcap(cap, scores), causal));
inline constexpr auto score_causal = attention(where(q_idx >= kv_idx, scores, -inf));
inline constexpr auto score_checkerboard = attention(where(distance % 2 == 1, scores * 0.5, scores * 2.0));
inline constexpr auto score_head_bias = attention(scores + 2 * h);
inline constexpr auto score_relative = attention(scores + (q_idx - kv_idx));

inline constexpr auto score_alibi = attention(scores + slopes(h) * (kv_idx - q_idx));
inline constexpr auto score_alibi_causal = attention(mask(scores + slopes(h) * (kv_idx - q_idx), causal));
inline constexpr auto conv_alibi_fa = attention(scores - slopes(h) * abs(q_idx + (key_length - query_length) - kv_idx));
inline constexpr auto score_fa4_alibi = attention(scores - slopes(h) * distance);

inline constexpr auto score_fa4_times_two = attention(2 * scores);
inline constexpr auto score_fa4_squared = attention(scores * scores);
inline constexpr auto score_fa4_rel_bias = attention(scores + distance);
inline constexpr auto score_fa4_rel_bias_x2 = attention(scores + 2 * distance);
inline constexpr auto score_fa4_rel_bias_clamped = attention(scores + min(distance, scalar<"C", i32>));

inline constexpr auto key_bias = input<"bias", f32>(key);
inline constexpr auto score_fa4_xor = attention(scores + scalar<"c1", f32> * ((q_idx ^ kv_idx) & 255) + scalar<"c2", f32> * key_bias(kv_idx));

/// Tables: a bias a batch element, head, query, key, or distance.
inline constexpr auto bias_of_batch = input<"bias", f32>(batch);
inline constexpr auto score_fa4_batch_bias = attention(scores + bias_of_batch(b));
inline constexpr auto head_bias = input<"head_bias", f32>(head);
inline constexpr auto pos_bias = input<"pos_bias", f32>(query);
inline constexpr auto score_fa4_dual_buffer = attention(scores + head_bias(h) + pos_bias(q_idx));

inline constexpr auto head_scale = input<"head_scale", f32>(head);
inline constexpr auto batch_bias = input<"batch_bias", f32>(batch);
inline constexpr auto q_bias = input<"q_bias", f32>(query);
inline constexpr auto kv_bias = input<"kv_bias", f32>(key);
inline constexpr auto rel = input<"rel", f32>(axis<"distance">);
inline constexpr auto radius = scalar<"R", i32>;
inline constexpr auto score_fa4_multi_buffer = attention(scores * head_scale(h) + batch_bias(b) + q_bias(q_idx) + kv_bias(kv_idx) +
                                                         c * rel(clamp(q_idx - kv_idx + radius, 0, 2 * radius)));

inline constexpr auto rel_bias = input<"rel_bias", f32>(axis<"distance">);
inline constexpr auto score_sandwich = attention(scores + head_scale(h) * rel_bias(q_idx - kv_idx + scalar<"N", i32> - 1));

inline constexpr auto distances = input<"distances", i32>(batch, query, key);
inline constexpr auto table = input<"table", f32>(head, axis<"distance">);
inline constexpr auto score_graphormer_spatial = attention(scores + table(h, distances(b, q_idx, kv_idx)));

/// Dense tensors over queries and keys, broadcast along axes of extent 1.
inline constexpr auto score_bias = input<"score_bias", f32>(batch, head, query, key);
inline constexpr auto conv_dense_bias = attention(scores + score_bias(b, h, q_idx, kv_idx));
inline constexpr auto visible = input<"mask", boolean>(batch, head, query, key);
inline constexpr auto conv_empty_rows = attention(mask(scores, visible(b, h, q_idx, kv_idx)));

}  // namespace golden
