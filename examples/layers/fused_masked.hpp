#pragma once
#include "fused.hpp"

/// A fused projection, a mask, and dropout on the probabilities.
namespace layers::fused {

inline constexpr auto masked_scores = mask(scores, pair_mask(b, q_idx, kv_idx) != 0);
inline constexpr auto masked = merge_heads(softmax(masked_scores) * v);  // (b, l, e)
inline constexpr auto dropout = merge_heads(kept(softmax(masked_scores), dropped_pairs(b, q_idx, kv_idx)) * v);

}  // namespace layers::fused
