#pragma once
#include "flex_attention.hpp"

/// The functions of attention-gym's masks, mods, examples and notebook, as flex_attention.hpp has PyTorch's. G: the
/// package, attn_gym; X: its examples and tests; N: examples/flex_attn.ipynb.
namespace gym {

using namespace attune::dsl;
using peers::document_id, peers::is_causal, peers::offsets, peers::window_size, peers::block_offset, peers::each;

// --- what the functions capture

inline constexpr auto is_global = input<"is_global", boolean>(position);
inline constexpr auto ancestor_matrix = input<"ancestor_matrix", boolean>(query, axis<"node">);
inline constexpr auto intervals = input<"intervals", i32>(axis<"image">, axis<"bound">);
inline constexpr auto image_boundaries = input<"image_boundaries", i32>(key);
inline constexpr auto prefix_document_id = input<"prefix_document_id", i32>(axis<"continued">);
inline constexpr auto topk_indices = input<"topk_indices", i32>(batch, head, axis<"query_tile">, axis<"chosen">);
inline constexpr auto variable_block_sizes = input<"variable_block_sizes", i32>(axis<"tile">);
inline constexpr auto block_map = input<"block_map", boolean>(batch, head, axis<"query_tile">, axis<"tile">);
inline constexpr auto spatial_bias = input<"spatial_bias", f32>(head, axis<"bucket">);
inline constexpr auto distances = input<"distances", i32>(batch, query, key);
inline constexpr auto edge_bias = input<"edge_bias", f32>(head, axis<"step">, axis<"edge_type">);
inline constexpr auto path_edge_types = input<"path_edge_types", i32>(batch, query, key, axis<"step">);
inline constexpr auto path_lengths = input<"path_lengths", i32>(batch, query, key);
inline constexpr auto query_rope = input<"query_rope", f32>(batch, head, query, axis<"rope">);
inline constexpr auto key_rope = input<"key_rope", f32>(batch, axis<"one_rope_head">, key, axis<"rope">);
inline constexpr auto sandwich_table = input<"sandwich_table", f32>(axis<"distance_of_sandwich">);
inline constexpr auto sandwich_scale = input<"sandwich_scale", f32>(head);
inline constexpr auto physical_to_logical = input<"physical_to_logical", i32>(batch, axis<"page">);
inline constexpr auto alibi_slopes = input<"alibi_slopes", f32>(head);
inline constexpr auto soft_cap = scalar<"soft_cap", f32>;

// --- helpers that the functions share there, too

/// floor_div(i, w), i % w: get_x_y.
template <class I> struct place {
    I i;
    int w;
    constexpr auto x() const { return floor_div(i, w); }
    constexpr auto y() const { return i % w; }
};
template <class I> constexpr auto get_x_y(I i, int w) { return place<I>{i, w}; }
constexpr auto deinterleave_bits_32(auto code) {
    const auto c1 = code & 0x55555555;
    const auto c2 = (c1 | (c1 >> 1)) & 0x33333333;
    const auto c4 = (c2 | (c2 >> 2)) & 0x0F0F0F0F;
    const auto c8 = (c4 | (c4 >> 4)) & 0x00FF00FF;
    return (c8 | (c8 >> 8)) & 0x0000FFFF;
}
/// The window of a kernel of three around a place on an axis of four.
constexpr auto window_of_three(auto q, auto kv) { return abs(clamp(q, 1, 2) - kv) <= 1; }
/// get_x_y_tiled on a canvas of 4 x 4 by tiles of 2 x 2.
constexpr auto tiled_x(auto i) { return floor_div(i, 4) % 2 * 2 + i % 4 % 2; }
constexpr auto tiled_y(auto i) { return floor_div(floor_div(i, 4), 2) * 2 + floor_div(i % 4, 2); }
/// Whether a tile lies within `kernel` tiles around the query's, clamped into the canvas of `tiles`.
constexpr auto within_tiles(auto q, auto kv, int kernel, int tiles) {
    const int left = kernel / 2, right = kernel / 2 + (kernel % 2 - 1);
    const auto centre = clamp(q, left, (tiles - 1) - right);
    return (kv >= centre - left) & (kv <= centre + right);
}

// --- masks

// G: batchify_mask_mod of causal_mask
inline constexpr auto batchify = flex(mask_mod([](auto b, auto h, auto q_idx, auto kv_idx) {
    const auto same_batch = floor_div(q_idx, 5) == floor_div(kv_idx, 5);
    const auto inner_mask = is_causal(b, h, q_idx % 5, kv_idx % 5);
    return same_batch & inner_mask;
}));
// G: generate_block_diffusion_mask
inline constexpr auto block_diffusion = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
    const auto q_noised = q_idx < 8, kv_noised = kv_idx < 8;
    const auto q_block = floor_div(q_idx % 8, 2), kv_block = floor_div(kv_idx % 8, 2);
    const auto block_diagonal = (q_block == kv_block) & (q_noised == kv_noised);
    const auto offset_block_causal = (q_block > kv_block) & q_noised & ~kv_noised;
    const auto block_causal = (q_block >= kv_block) & ~q_noised & ~kv_noised;
    return block_diagonal | offset_block_causal | block_causal;
}));
// G: causal_mask; X: every causal_mask, test_sandwich.py's lambdas; N: causal_mask
inline constexpr auto causal_by_mask = flex(is_causal);
// G: generate_dilated_sliding_window
inline constexpr auto dilated_sliding_window = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
    const auto diff = abs(q_idx - kv_idx);
    const auto in_window = diff <= 7;
    const auto is_dilated = (diff % 3) == 0;
    return in_window & is_dilated;
}));
// G: generate_doc_mask_mod of causal_mask; N: create_njt_wrapper.njt_score_mod
inline constexpr auto doc_mask_mod = flex(mask_mod([](auto b, auto h, auto q_idx, auto kv_idx) {
    const auto same_doc = document_id[q_idx] == document_id[kv_idx];
    const auto q_logical = q_idx - offsets[document_id[q_idx]];
    const auto kv_logical = kv_idx - offsets[document_id[kv_idx]];
    const auto inner_mask = is_causal(b, h, q_logical, kv_logical);
    return same_doc & inner_mask;
}));
// G: generate_packed_causal_doc_mask_mod
inline constexpr auto doc_causal_mask_mod = flex(mask_mod([](auto b, auto h, auto q_idx, auto kv_idx) {
    const auto doc_start = offsets[document_id[q_idx]];
    return (kv_idx >= doc_start) & is_causal(b, h, q_idx, kv_idx);
}));
// G: generate_vision_cross_attention_mask_mod; N: vision_x_attention_mask
inline constexpr auto vision_cross_attention = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
    const auto image_idx = image_boundaries[kv_idx];
    const auto interval = intervals[image_idx];
    return (q_idx >= interval[0]) & (q_idx < interval[1]);
}));
// G: generate_global_sliding_window
inline constexpr auto global_sliding_window =
    flex(or_masks([](auto, auto, auto q_idx, auto kv_idx) { return abs(q_idx - kv_idx) <= 3; },
                  [](auto, auto, auto q_idx, auto kv_idx) { return is_global[q_idx] | is_global[kv_idx]; }));
// G: generate_jetspec_tree_causal_mask_mod
inline constexpr auto jetspec_tree_causal = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
    const auto tree_idx = clamp(kv_idx - 2, 0, 14 - 1);
    const auto tree_visible = (kv_idx >= 2) & (kv_idx < 16);
    return (kv_idx < 2) | (tree_visible & ancestor_matrix[q_idx][tree_idx]);
}));
// G: generate_jetspec_training_mask_mod
inline constexpr auto jetspec_training = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
    const auto q_block = floor_div(q_idx, 5), q_block_offset = q_idx % 5;
    const auto kv_block_idx = kv_idx - 3, kv_block = floor_div(kv_block_idx, 5), kv_block_offset = kv_block_idx % 5;
    const auto same_block_causal = (kv_idx >= 3) & (q_block == kv_block) & (kv_block_offset <= q_block_offset);
    return (kv_idx < 3) | same_block_causal;
}));
// G: generate_natten; N: natten_mask
inline constexpr auto natten = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
    const auto q = get_x_y(q_idx, 4), kv = get_x_y(kv_idx, 4);
    const auto hori_mask = window_of_three(q.x(), kv.x());
    const auto vert_mask = window_of_three(q.y(), kv.y());
    return hori_mask & vert_mask;
}));
// G: generate_tiled_natten; N: gen_tiled_natten.tiled_natten_mask
inline constexpr auto tiled_natten = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
    const auto hori_mask = window_of_three(tiled_x(q_idx), tiled_x(kv_idx));
    const auto vert_mask = window_of_three(tiled_y(q_idx), tiled_y(kv_idx));
    return hori_mask & vert_mask;
}));
// G: generate_morton_natten
inline constexpr auto morton_natten = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
    const auto hori_mask = window_of_three(deinterleave_bits_32(q_idx), deinterleave_bits_32(kv_idx));
    const auto vert_mask = window_of_three(deinterleave_bits_32(q_idx >> 1), deinterleave_bits_32(kv_idx >> 1));
    return hori_mask & vert_mask;
}));
// G: generate_prefix_lm_mask
inline constexpr auto prefix_lm = flex(or_masks([](auto, auto, auto, auto kv_idx) { return kv_idx < 5; }, is_causal));
// G: generate_shared_prefix_mask_mod
inline constexpr auto shared_prefix = flex(mask_mod([](auto b, auto h, auto q_idx, auto kv_idx) {
    const auto q_document = document_id[q_idx];
    const auto q_document_start = offsets[q_document];
    const auto q_prefix_document = prefix_document_id[q_document];
    const auto q_prefix_start = offsets[q_prefix_document];
    const auto q_prefix_end = offsets[q_prefix_document + 1];
    const auto same_document_causal = (kv_idx >= q_document_start) & is_causal(b, h, q_idx, kv_idx);
    const auto prefix_document =
        (q_document != q_prefix_document) & (kv_idx >= q_prefix_start) & (kv_idx < q_prefix_end);
    return same_document_causal | prefix_document;
}));
// G: generate_sliding_window
inline constexpr auto sliding_window =
    flex(and_masks([](auto, auto, auto q_idx, auto kv_idx) { return q_idx - kv_idx <= 4; }, is_causal));
// G: generate_sta_mask_mod_2d
inline constexpr auto sta_2d = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
    const auto q_tile = floor_div(q_idx, 2), kv_tile = floor_div(kv_idx, 2);
    const auto h_mask = within_tiles(floor_div(q_tile, 3), floor_div(kv_tile, 3), 1, 2);
    const auto w_mask = within_tiles(q_tile % 3, kv_tile % 3, 2, 3);
    const auto vision_mask = (q_idx < 12) & (kv_idx < 12);
    const auto vision_to_text_mask = (q_idx < 12) & (kv_idx >= 12) & (kv_idx < 12 + 3);
    const auto text_to_all_mask = (q_idx >= 12) & (kv_idx < 12 + 3);
    return (vision_mask & h_mask & w_mask) | vision_to_text_mask | text_to_all_mask;
}));
// G: generate_sta_mask_mod_3d
inline constexpr auto sta_3d = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
    const auto q_tile = q_idx, kv_tile = kv_idx;
    const auto t_mask = within_tiles(floor_div(q_tile, 6), floor_div(kv_tile, 6), 1, 2);
    const auto h_mask = within_tiles(floor_div(q_tile % 6, 3), floor_div(kv_tile % 6, 3), 2, 2);
    const auto w_mask = within_tiles(q_tile % 3, kv_tile % 3, 2, 3);
    const auto vision_mask = (q_idx < 12) & (kv_idx < 12);
    const auto vision_to_text_mask = (q_idx < 12) & (kv_idx >= 12) & (kv_idx < 12 + 3);
    const auto text_to_all_mask = (q_idx >= 12) & (kv_idx < 12 + 3);
    return (vision_mask & t_mask & w_mask & h_mask) | vision_to_text_mask | text_to_all_mask;
}));
// G: generate_spatial_head_mask_mod, with attn_sink
inline constexpr auto spatial_head = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
    constexpr bool attn_sink = true;
    const auto first_row_mask = q_idx < 2;
    const auto first_column_mask = kv_idx < (attn_sink ? 2 + 3 : 2);
    const auto spatial_head_mask = abs(q_idx - kv_idx) < 2 * 3 / 2 * 2;
    return first_column_mask | first_row_mask | spatial_head_mask;
}));
// G: generate_temporal_head_mask_mod
inline constexpr auto temporal_head = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
    const auto first_row_mask = q_idx < 2;
    const auto first_column_mask = kv_idx < 2;
    const auto q_token_id = (q_idx - 2) % 5, kv_token_id = (kv_idx - 2) % 5;
    const auto temporal_head_mask = abs(q_token_id - kv_token_id) < 2 * 5 / 4;
    return first_column_mask | first_row_mask | temporal_head_mask;
}));
// G: generate_vsa_mask_mod; word: any(each, extent<3>(t), t[b][h][i][each] == j) for (t[b, h, i] == j).any(-1)
inline constexpr auto vsa_mask_mod = flex(mask_mod([](auto b, auto h, auto q_idx, auto kv_idx) {
    const auto q_tile = floor_div(q_idx, 4), kv_tile = floor_div(kv_idx, 4);
    const auto selected = any(each, extent<3>(topk_indices), topk_indices[b][h][q_tile][each] == kv_tile);
    return selected & (kv_idx % 4 < variable_block_sizes[kv_tile]);
}));
// G: generate_vsa_block_map_mask_mod
inline constexpr auto vsa_block_map = flex(mask_mod([](auto b, auto h, auto q_idx, auto kv_idx) {
    const auto q_tile = floor_div(q_idx, 4), kv_tile = floor_div(kv_idx, 4);
    const auto selected = block_map[b][h][q_tile][kv_tile];
    return selected & (kv_idx % 4 < variable_block_sizes[kv_tile]);
}));
// G: generate_vsa_padding_mask_mod
inline constexpr auto vsa_padding = flex(mask_mod([](auto, auto, auto, auto kv_idx) {
    const auto kv_tile = floor_div(kv_idx, 4);
    return kv_idx % 4 < variable_block_sizes[kv_tile];
}));
// N: sliding_window_causal_mask, docs/concepts.md: my_mask
inline constexpr auto sliding_window_causal_mask = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
    const auto causal_mask = q_idx >= kv_idx;
    const auto windowed_mask = q_idx - kv_idx <= window_size;
    return causal_mask & windowed_mask;
}));
// N: prefix_lm_causal_mask
inline constexpr auto prefix_lm_causal_mask = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
    const auto prefix_mask = kv_idx <= 5;
    const auto causal_mask = q_idx >= kv_idx;
    return prefix_mask | causal_mask;
}));
// N: document_causal_mask
inline constexpr auto document_causal_mask = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
    const auto causal_mask = q_idx >= kv_idx;
    const auto document_mask = document_id[q_idx] == document_id[kv_idx];
    return causal_mask & document_mask;
}));
// N: sasa_mask
inline constexpr auto sasa_mask = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
    const auto q = get_x_y(q_idx, 4), kv = get_x_y(kv_idx, 4);
    const auto horizontal_mask = abs(q.x() - kv.x()) <= 1;
    const auto vertical_mask = abs(q.y() - kv.y()) <= 1;
    return horizontal_mask & vertical_mask;
}));
// X: ring_attention.py: causal_shard_mask
inline constexpr auto causal_shard_mask =
    flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) { return q_idx + 6 >= kv_idx + 4; }));
// X: rows_guaranteed_safe_demo.py: subtle_mask_mod; word: ~condition for where(condition, False, True)
inline constexpr auto subtle_mask_mod = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
                                                 const auto first_row = q_idx == 0;
                                                 const auto not_first_kv_block = kv_idx >= 8;
                                                 return ~(first_row & ~not_first_kv_block);
                                             }),
                                             return_lse);
// X: paged_attention/utils.py: gen_offset.offset
inline constexpr auto gen_offset =
    flex(mask_mod([](auto b, auto, auto m, auto n) { return m + block_offset[b] >= n; }));
// X: paged_attention.py: get_mask_mod.new_mask_mod of causal_mask; word: condition & for where(condition, mask, False)
inline constexpr auto paged_mask_mod = flex(mask_mod([](auto b, auto h, auto q_idx, auto physical_kv_idx) {
    const auto physical_kv_block = floor_div(physical_kv_idx, 4), physical_kv_offset = physical_kv_idx % 4;
    const auto logical_block_idx = physical_to_logical[b][physical_kv_block];
    const auto logical_kv_idx = logical_block_idx * 4 + physical_kv_offset;
    return (logical_block_idx >= 0) & is_causal(b, h, q_idx, logical_kv_idx);
}));

// --- mods

// X: paged_attention.py: get_score_mod.new_score_mod of relative_bias
inline constexpr auto paged_score_mod =
    flex(score_mod([](auto score, auto b, auto h, auto q_idx, auto physical_kv_idx) {
        const auto physical_kv_block = floor_div(physical_kv_idx, 4), physical_kv_offset = physical_kv_idx % 4;
        const auto logical_block_idx = physical_to_logical[b][physical_kv_block];
        const auto logical_kv_idx = logical_block_idx * 4 + physical_kv_offset;
        return where(logical_block_idx >= 0, peers::rel_bias_score(score, b, h, q_idx, logical_kv_idx), -inf);
    }));
// X: paged_attention/utils.py: head_bias
inline constexpr auto head_bias = flex(score_mod([](auto score, auto, auto h, auto, auto) { return score + 2 * h; }));
// X: paged_attention/utils.py: relative_bias, docs/concepts.md: my_score_mod
inline constexpr auto relative_bias = flex(peers::rel_bias_score);
// G: generate_activation_score_mod of gelu
inline constexpr auto activation =
    flex(score_mod([](auto score, auto, auto, auto, auto) { return log(gelu(score) + 1.0); }));
// G: generate_alibi_bias; N: alibi_and_causal_functional
inline constexpr auto alibi = flex(score_mod([](auto score, auto, auto h, auto q_idx, auto kv_idx) {
    const auto scale = exp2(-((h + 1) * 8.0 / heads));
    const auto bias = (kv_idx - q_idx) * scale;
    return score + bias;
}));
// N: alibi_and_causal_closure, with causal_mask
inline constexpr auto alibi_and_causal = flex(score_mod([](auto score, auto, auto h, auto q_idx, auto kv_idx) {
                                                  const auto bias = alibi_slopes[h] * (kv_idx - q_idx);
                                                  return score + bias;
                                              }),
                                              is_causal);
// G: generate_graphormer_spatial_bias
inline constexpr auto graphormer_spatial = score_mod([](auto score, auto b, auto h, auto q_idx, auto kv_idx) {
    return score + spatial_bias[h][distances[b][q_idx][kv_idx]];
});
inline constexpr auto graphormer_spatial_bias = flex(graphormer_spatial);
// G: generate_graphormer_edge_bias; word: sum(each, K, where(...)) for the loop over position_tables
inline constexpr auto graphormer_edge = score_mod([](auto score, auto b, auto h, auto q_idx, auto kv_idx) {
    const auto length = path_lengths[b][q_idx][kv_idx];
    const auto total =
        sum(each, 3, where(length > each, edge_bias[h][each][path_edge_types[b][q_idx][kv_idx][each]], 0.0));
    return score + total / max(length, 1);
});
inline constexpr auto graphormer_edge_bias = flex(graphormer_edge);
// X: test_graphormer.py: graphormer_mod; word: as generate_graphormer_edge_bias
inline constexpr auto graphormer_mod = flex(score_mod([](auto score, auto b, auto h, auto q_idx, auto kv_idx) {
    return graphormer_edge(graphormer_spatial(score, b, h, q_idx, kv_idx), b, h, q_idx, kv_idx);
}));
// G: generate_mla_rope_score_mod; word: sum(each, extent, x * y) for torch.dot of rows
inline constexpr auto mla_rope = flex(score_mod([](auto score, auto b, auto h, auto q_idx, auto kv_idx) {
    return score + 0.5 * sum(each, extent<3>(query_rope),
                             query_rope[b][h][q_idx][each] * key_rope[b][floor_div(h, 2)][kv_idx][each]);
}));
// G: generate_sandwich_bias
inline constexpr auto sandwich = flex(score_mod([](auto score, auto, auto h, auto q_idx, auto kv_idx) {
    return score + sandwich_table[q_idx - kv_idx + 15] * sandwich_scale[h];
}));
// G: generate_tanh_softcap; X: flex_flash_attention.py: tanh_softcap; N: tanh_soft_cap
inline constexpr auto tanh_softcap =
    flex(score_mod([](auto score, auto, auto, auto, auto) { return soft_cap * tanh(score / soft_cap); }));
// N: checkerboard
inline constexpr auto checkerboard = flex(score_mod([](auto score, auto, auto, auto token_q, auto token_kv) {
    const auto halved = where(abs(token_kv - token_q) % 2 == 1, score * 0.5, score);
    return where(abs(token_kv - token_q) % 2 == 0, halved * 2.0, halved);
}));
// N: noop; X: ring_attention.py: _identity_score_mod
inline constexpr auto noop = flex(score_mod([](auto score, auto, auto, auto, auto) { return score; }));
// N: causal_bias
inline constexpr auto causal_bias = flex(peers::causal_score);
// X: debug_score_mod.py: create_broken_mod, _2, _3
inline constexpr auto broken_anti_window_mod = flex(score_mod([](auto score, auto, auto, auto q_idx, auto kv_idx) {
    const auto score_distance = q_idx - kv_idx;
    const auto score_boost = score + score_distance;
    const auto window_penalty = score - 1.0;
    return where(score_distance <= window_size, window_penalty, score_boost);
}));
// X: debug_score_mod.py: create_broken_mod_4
inline constexpr auto broken_anti_window_mod_4 = flex(score_mod([](auto score, auto, auto, auto q_idx, auto kv_idx) {
    const auto score_distance = abs(q_idx - kv_idx);
    const auto score_boost = score + score_distance;
    const auto window_penalty = score - 1.0;
    const auto new_score = where(score_distance <= window_size, window_penalty, score_boost);
    return new_score;
}));

}  // namespace gym
