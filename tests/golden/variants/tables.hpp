#pragma once
#include "common.hpp"

/// Modifications of the scores by tables: a bias a batch element, head, query, key, distance or pair.
namespace golden {

inline constexpr auto bias_of_batch = input<"bias", f32>(batch);
inline constexpr auto score_fa4_batch_bias = attention(catalogue::batch_bias(scores, bias_of_batch));
inline constexpr auto head_bias = input<"head_bias", f32>(head);
inline constexpr auto pos_bias = input<"pos_bias", f32>(query);
inline constexpr auto score_fa4_dual_buffer = attention(catalogue::head_and_query_bias(scores, head_bias, pos_bias));

inline constexpr auto head_scale = input<"head_scale", f32>(head);
inline constexpr auto batch_bias = input<"batch_bias", f32>(batch);
inline constexpr auto bias_of_query = input<"q_bias", f32>(query);
inline constexpr auto bias_of_key = input<"kv_bias", f32>(key);
inline constexpr auto rel = input<"rel", f32>(axis<"distance">);
inline constexpr auto score_fa4_multi_buffer = attention(catalogue::distance_table(
    catalogue::scaled_and_biased(scores, head_scale, batch_bias, bias_of_query, bias_of_key),
    [](auto i) { return scalar<"c", f32> * rel(i); }, scalar<"R", i32>));

inline constexpr auto rel_bias = input<"rel_bias", f32>(axis<"distance">);
inline constexpr auto score_sandwich = attention(catalogue::sandwich(scores, head_scale, rel_bias, scalar<"N", i32>));

inline constexpr auto distances = input<"distances", i32>(batch, query, key);
inline constexpr auto table = input<"table", f32>(head, axis<"distance">);
inline constexpr auto score_graphormer_spatial = attention(catalogue::graphormer_spatial(scores, table, distances));
inline constexpr auto path_lengths = input<"path_lengths", i32>(batch, query, key);
inline constexpr auto edge_types = input<"edge_types", i32>(batch, query, key, axis<"step">);
inline constexpr auto table_of_edges = input<"table", f32>(head, axis<"step">, axis<"edge">);
inline constexpr auto score_graphormer_edge =
    attention(catalogue::graphormer_edge(scores, table_of_edges, edge_types, path_lengths));

inline constexpr auto q_rope = input<"q_rope", f32>(batch, head, query, axis<"rope">);
inline constexpr auto k_rope = input<"k_rope", f32>(batch, axis<"rope_head">, key, axis<"rope">);
inline constexpr auto score_mla_rope =
    attention(catalogue::mla_rope(scores, q_rope, k_rope, scalar<"nh", i32>, scalar<"c", f32>));

/// Dense tensors over queries and keys, broadcast along axes of extent 1.
inline constexpr auto score_bias = input<"score_bias", f32>(batch, head, query, key);
inline constexpr auto conv_dense_bias = attention(catalogue::dense_bias(scores, score_bias));
inline constexpr auto visible = input<"mask", boolean>(batch, head, query, key);
inline constexpr auto conv_empty_rows = masked(catalogue::dense_mask(visible));

}  // namespace golden
