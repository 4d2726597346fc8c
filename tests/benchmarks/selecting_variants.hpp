#pragma once
#include "variants.hpp"

#include <attune/catalogue/selectors.hpp>

/// Variants that choose the blocks of keys that they see.
namespace bench {
namespace catalogue = attune::catalogue;

/// What MoBA and NSA see of blocks of 64 keys: beside its own, or those that it always sees, a query chooses so many.
inline constexpr auto key_means = catalogue::mean_of_keys(k, 64, depth);
inline constexpr auto moba_attention = softmax(mask(scores, catalogue::moba(q, key_means, 64, 7))) * v;

/// Yuan et al. 2025: means of blocks that end before the query, chosen blocks, and a window, gated.
inline constexpr auto gates = input<"gates", f32>(batch, head, query, axis<"branch">);
inline constexpr auto value_means = catalogue::mean_of_keys(v, 64, value_depth);
inline constexpr auto last_block = max((key_length + 63) / 64, 1) - 1;
inline constexpr auto compressed_attention =
    softmax(
        mask(q * t(keys(key_means(b, h, min(kv_idx, last_block), d_idx))) * rsqrt(depth), (kv_idx + 1) * 64 <= q_idx)) *
    values(value_means(b, h, min(kv_idx, last_block), d_idx));
inline constexpr auto nsa_attention =
    gates(b, h, q_idx, 0) * compressed_attention +
    gates(b, h, q_idx, 1) * (softmax(mask(scores, catalogue::nsa_selection(q, key_means, 64, 5))) * v) +
    gates(b, h, q_idx, 2) * (softmax(mask(scores, causal&& window(127, 0))) * v);

}  // namespace bench
