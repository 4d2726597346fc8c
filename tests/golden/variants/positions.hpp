#pragma once
#include "common.hpp"

/// Masks that are arithmetic on the two positions: prefixes, blocks, drafts, frames.
namespace golden {

inline constexpr auto prefix = scalar<"P", i32>;
inline constexpr auto block = scalar<"block", i32>;
inline constexpr auto period = scalar<"T", i32>;
inline constexpr auto frame = scalar<"F", i32>;

inline constexpr auto mask_prefix_lm = masked(catalogue::prefix_lm(prefix));
inline constexpr auto mask_fa4_prefix = masked(catalogue::prefix_block(prefix));
inline constexpr auto mask_batchify =
    masked(catalogue::batchified(scalar<"n", i32>, [](auto q, auto k) { return q >= k; }));
inline constexpr auto mask_fa4_block_diagonal = masked(catalogue::block_diagonal(block));
inline constexpr auto mask_fa4_mini_causal = masked(catalogue::mini_causal(period));
inline constexpr auto mask_fa4_causal_offset = masked(catalogue::causal_with_offset(scalar<"offset", i32>));
inline constexpr auto mask_block_diffusion = masked(catalogue::block_diffusion(scalar<"S", i32>, block));

inline constexpr auto mask_jetspec_training = masked(catalogue::draft_blocks(prefix, block));
inline constexpr auto ancestor = input<"ancestor", boolean>(axis<"node">, axis<"ancestor">);
inline constexpr auto mask_jetspec_tree = masked(catalogue::tree_causal(prefix, scalar<"N", i32>, ancestor));

inline constexpr auto mask_svg_spatial =
    masked(catalogue::spatial_head(prefix, frame, w, scalar<"sink", i32>, scalar<"round", i32>));
inline constexpr auto mask_svg_temporal = masked(catalogue::temporal_head(prefix, scalar<"frames", i32>, frame, w));

inline constexpr auto intervals = input<"intervals", i32>(axis<"image">, axis<"bound">);
inline constexpr auto mask_vision_cross = masked(catalogue::vision_cross_attention(intervals, period));

}  // namespace golden
