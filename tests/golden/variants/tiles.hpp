#pragma once
#include "common.hpp"

/// Video sparse attention: tiles of T tokens, chosen by attention between the tiles' means.
namespace golden {

inline constexpr auto tile = scalar<"T", i32>;
inline constexpr auto sizes = input<"sizes", i32>(axis<"tile">);
inline constexpr auto block_map = input<"block_map", boolean>(batch, head, axis<"query_tile">, axis<"tile">);
inline constexpr auto topk = input<"topk", i32>(batch, head, axis<"query_tile">, axis<"chosen">);

inline constexpr auto mask_vsa_padding = masked(catalogue::real_tokens(tile, sizes));
inline constexpr auto mask_vsa_map =
    masked(catalogue::tile_map(tile, block_map) && catalogue::real_tokens(tile, sizes));
inline constexpr auto mask_vsa_topk = masked(catalogue::chosen_tiles(tile, topk));
inline constexpr auto mask_vsa_topk_sizes =
    masked(catalogue::chosen_tiles(tile, topk) && catalogue::real_tokens(tile, sizes));

inline constexpr auto coarse_queries = queries(catalogue::tile_mean(q, q_idx, tile, sizes), extent<2>(q) / tile);
inline constexpr auto coarse_keys = keys(catalogue::tile_mean(k, kv_idx, tile, sizes), extent<2>(k) / tile);
inline constexpr auto coarse_values = values(catalogue::tile_mean(v, kv_idx, tile, sizes), extent<2>(v) / tile);
inline constexpr auto coarse_scores = coarse_queries * t(coarse_keys) * scale;
inline constexpr auto coarse =
    outputs(output<"coarse_out"> = softmax(coarse_scores) * coarse_values,
            output<"coarse_lse"> = log_sum_exp(coarse_scores), output<"coarse_scores"> = coarse_scores);

}  // namespace golden
