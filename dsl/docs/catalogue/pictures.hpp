#pragma once
#include <attune/catalogue.hpp>

/// Entries of the catalogue at numbers that make a picture: ./page.py draws them.
namespace pictures {

using namespace attune::dsl;
namespace catalogue = attune::catalogue;

inline constexpr auto scores = q * t(k) * rsqrt(depth);
template <class Scores> constexpr auto attention(Scores s) { return softmax(s) * v; }
template <class Condition> constexpr auto masked(Condition visible) { return attention(mask(scores, visible)); }

// --- positions
// A line an entry: CMake and page.py read them.
// clang-format off
inline constexpr auto causal_score = attention(catalogue::causal_score(scores));
inline constexpr auto causal_with_offset = masked(catalogue::causal_with_offset(-60));
inline constexpr auto causal_up_to = masked(catalogue::causal_up_to(kv_lengths(b)));
inline constexpr auto mini_causal = masked(catalogue::mini_causal(64));

// --- distances
inline constexpr auto sliding_window = masked(catalogue::sliding_window(48));
inline constexpr auto last_keys = masked(catalogue::last_keys(48));
inline constexpr auto window_back = masked(catalogue::window_back(48));
inline constexpr auto dilated_window = masked(catalogue::dilated_window(96, 8));
inline constexpr auto dilated_causal = masked(catalogue::dilated_causal(96, 8));
inline constexpr auto global_window = masked(catalogue::global_window(16, input<"is_global", boolean>(position)));
inline constexpr auto window_per_head = masked(catalogue::window_per_head(input<"windows", i32>(head)));
inline constexpr auto key_threshold = masked(catalogue::key_threshold(input<"threshold", i32>(key)));
inline constexpr auto key_range = masked(catalogue::key_range(input<"from", i32>(query), input<"to", i32>(query)));

// --- prefixes
inline constexpr auto prefix_lm = masked(catalogue::prefix_lm(64));
inline constexpr auto prefix_block = masked(catalogue::prefix_block(64));

// --- several sequences in one
inline constexpr auto doc = input<"doc", i32>(position);
inline constexpr auto offsets = input<"offsets", i32>(axis<"document">);
inline constexpr auto same_document = masked(catalogue::same_document(doc));
inline constexpr auto document = masked(catalogue::document(doc, offsets, [](auto q, auto k) { return q >= k && q - k <= 40; }));
inline constexpr auto packed_causal = masked(catalogue::packed_causal(doc, offsets));
inline constexpr auto shared_prefix = masked(catalogue::shared_prefix(doc, offsets, input<"prefix", i32>(axis<"document">)));
inline constexpr auto block_diagonal = masked(catalogue::block_diagonal(50));
inline constexpr auto batchified = masked(catalogue::batchified(50, [](auto q, auto k) { return q >= k; }));
inline constexpr auto cu_q = input<"cu_q", i32>(axis<"query_sequence">);
inline constexpr auto cu_k = input<"cu_k", i32>(axis<"key_sequence">);
inline constexpr auto same_sequence = masked(catalogue::same_sequence(cu_q, cu_k));
inline constexpr auto varlen = masked(catalogue::varlen(cu_q, cu_k, [](auto q, auto k) { return q / 16 == k / 16; }));
inline constexpr auto varlen_causal = masked(catalogue::varlen_causal(cu_q, cu_k));
inline constexpr auto varlen_row_window = masked(catalogue::varlen_row_window(cu_q, cu_k, input<"windows", i32>(query)));
inline constexpr auto varlen_document = masked(catalogue::varlen_document(cu_q, cu_k, input<"doc_q", i32>(query), input<"doc_k", i32>(key)));

// --- diffusion, images, video
inline constexpr auto block_diffusion = masked(catalogue::block_diffusion(128, 16));
inline constexpr auto vision_cross_attention = masked(catalogue::vision_cross_attention(input<"intervals", i32>(axis<"image">, axis<"bound">), 32));
inline constexpr auto natten = masked(catalogue::natten(16, 16, 5, 5));
inline constexpr auto tiled_natten = masked(catalogue::tiled_natten(16, 16, 5, 5, 4, 4));
inline constexpr auto morton_natten = masked(catalogue::morton_natten(16, 16, 5, 5));
inline constexpr auto stand_alone = masked(catalogue::stand_alone(16, 2));
inline constexpr auto sliding_tiles_2d = masked(catalogue::sliding_tiles_2d(12, 20, 6, 12, 2, 4));
inline constexpr auto sliding_tiles_3d = masked(catalogue::sliding_tiles_3d(6, 8, 5, 4, 6, 5, 2, 2, 5));
inline constexpr auto spatial_head = masked(catalogue::spatial_head(16, 40, 1, 1, 8));
inline constexpr auto temporal_head = masked(catalogue::temporal_head(16, 6, 40, 1));

// --- drafts, tiles
inline constexpr auto tree_causal = masked(catalogue::tree_causal(40, 24, input<"ancestor", boolean>(axis<"draft">, axis<"ancestor">)));
inline constexpr auto draft_tree = masked(catalogue::draft_tree(input<"ancestor", boolean>(query, axis<"draft">)));
inline constexpr auto draft_blocks = masked(catalogue::draft_blocks(64, 16));
inline constexpr auto real_tokens = masked(catalogue::real_tokens(32, input<"sizes", i32>(axis<"tile">)));
inline constexpr auto tile_map = masked(catalogue::tile_map(32, input<"map", boolean>(batch, head, axis<"query_tile">, axis<"tile">)));
inline constexpr auto chosen_tiles = masked(catalogue::chosen_tiles(32, input<"topk", i32>(batch, head, axis<"query_tile">, axis<"chosen">)));

// --- scores
inline constexpr auto alibi = attention(mask(catalogue::alibi(scores, alibi_slope), causal));
inline constexpr auto alibi_two_sided = attention(catalogue::alibi_two_sided(scores, alibi_slope));
inline constexpr auto relative = attention(catalogue::relative(scores));
inline constexpr auto distance_bias = attention(catalogue::distance_bias(scores, -0.1));
inline constexpr auto clamped_distance_bias = attention(catalogue::clamped_distance_bias(scores, 64));
inline constexpr auto distance_table = attention(catalogue::distance_table(scores, input<"table", f32>(axis<"distance">), 32));
inline constexpr auto checkerboard = attention(catalogue::checkerboard(scores));
inline constexpr auto xor_pattern = attention(catalogue::xor_pattern(scores, 0.01, 0.1, input<"bias", f32>(key)));
inline constexpr auto query_and_key_bias = attention(catalogue::query_and_key_bias(scores, input<"of_query", f32>(query), input<"of_key", f32>(key)));

// --- the language's own; last, because their names hide it
inline constexpr auto causal_bottom_right = masked(attune::dsl::causal_bottom_right);
inline constexpr auto window = masked(attune::dsl::window(48, 16));
inline constexpr auto causal = masked(attune::dsl::causal);
// clang-format on

}  // namespace pictures
