#pragma once
#include "common.hpp"

/// Masks that are arithmetic on the two positions.
namespace golden {

inline constexpr auto prefix = scalar<"P", i32>;
inline constexpr auto block = scalar<"block", i32>;
inline constexpr auto period = scalar<"T", i32>;
inline constexpr auto count = scalar<"n", i32>;

inline constexpr auto mask_prefix_lm = attention(mask(scores, kv_idx < prefix || causal));
inline constexpr auto mask_fa4_prefix = attention(mask(scores, (q_idx < prefix && kv_idx < prefix) || causal));
inline constexpr auto mask_batchify = attention(mask(scores, q_idx / count == kv_idx / count && q_idx % count >= kv_idx % count));
inline constexpr auto mask_fa4_block_diagonal = attention(mask(scores, q_idx / block == kv_idx / block));
inline constexpr auto mask_fa4_mini_causal = attention(mask(scores, q_idx % period >= kv_idx % period));
inline constexpr auto mask_fa4_causal_offset = attention(mask(scores, kv_idx <= q_idx + scalar<"offset", i32>));

inline constexpr auto is_global = input<"is_global", boolean>(position);
inline constexpr auto mask_global_window = attention(mask(scores, window(w, w) || is_global(q_idx) || is_global(kv_idx)));

/// Block diffusion: the first S positions are noised, the rest are the clean sequence.
inline constexpr auto half = scalar<"S", i32>;
inline constexpr auto q_block = (q_idx % half) / block;
inline constexpr auto k_block = (kv_idx % half) / block;
inline constexpr auto q_clean = q_idx >= half;
inline constexpr auto k_clean = kv_idx >= half;
inline constexpr auto same_half = (q_clean && k_clean) || (!q_clean && !k_clean);
inline constexpr auto mask_block_diffusion = attention(mask(scores, (q_block == k_block && same_half) || (q_block > k_block && !q_clean && k_clean) ||
                                                                    (q_block >= k_block && q_clean && k_clean)));

/// Tree drafts: a prefix of P tokens, then blocks or a tree given by its ancestors.
inline constexpr auto drafted = kv_idx - prefix;
inline constexpr auto mask_jetspec_training = attention(mask(scores, kv_idx < prefix || (q_idx / block == drafted / block && drafted % block <= q_idx % block)));
inline constexpr auto ancestor = input<"ancestor", boolean>(axis<"node">, axis<"ancestor">);
inline constexpr auto mask_jetspec_tree = attention(mask(scores, kv_idx < prefix || (drafted >= 0 && drafted < scalar<"N", i32> && ancestor(q_idx, drafted))));

/// Video: F tokens a frame after P tokens of text; each frame's neighbourhood, or the same place in all frames.
inline constexpr auto frame = scalar<"F", i32>;
inline constexpr auto rounding = scalar<"round", i32>;
inline constexpr auto mask_svg_spatial = attention(mask(scores, q_idx < prefix || kv_idx < prefix + frame * scalar<"sink", i32> ||
                                                                abs(q_idx - kv_idx) < w * frame / rounding * rounding));
inline constexpr auto mask_svg_temporal = attention(mask(scores, q_idx < prefix || kv_idx < prefix ||
                                                                 abs((q_idx - prefix) % frame - (kv_idx - prefix) % frame) < w * frame / scalar<"frames", i32>));

inline constexpr auto threshold = input<"threshold", i32>(key);
inline constexpr auto mask_fa4_key_threshold = attention(mask(scores, kv_idx >= threshold(kv_idx)));

/// Text that looks at images of T tokens: [start, end) of the queries that see each.
inline constexpr auto intervals = input<"intervals", i32>(axis<"image">, axis<"bound">);
inline constexpr auto mask_vision_cross = attention(mask(scores, intervals(kv_idx / period, 0) <= q_idx && q_idx < intervals(kv_idx / period, 1)));

/// Block-sparse: a map of tiles of T tokens, and how many tokens of each tile are real.
inline constexpr auto sizes = input<"sizes", i32>(axis<"tile">);
inline constexpr auto block_map = input<"block_map", boolean>(batch, head, axis<"query_tile">, axis<"tile">);
inline constexpr auto mask_vsa_padding = attention(mask(scores, kv_idx % period < sizes(kv_idx / period)));
inline constexpr auto mask_vsa_map = attention(mask(scores, block_map(b, h, q_idx / period, kv_idx / period) && kv_idx % period < sizes(kv_idx / period)));

}  // namespace golden
