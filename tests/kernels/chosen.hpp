#pragma once
#include <attune/dsl.hpp>

/// Keys that each query chooses, token by token, from a pool that all share. A query, or a tile of queries that read
/// together, is a batch element; its index says which slots of the pool are its keys.
namespace chosen_keys {
using namespace attune::dsl;

inline constexpr auto chosen = input<"chosen", i32>(batch, axis<"place">);
inline constexpr auto members = input<"members", i32>(batch, axis<"place">);  // bit i: query i of the tile chose it
inline constexpr auto importance = input<"importance", f32>(batch, axis<"place">);
inline constexpr auto k_pool = input<"k_pool", f32>(axis<"slot">, key_head, depth);
inline constexpr auto v_pool = input<"v_pool", f32>(axis<"slot">, key_head, value_depth);

inline constexpr auto count = extent<1>(chosen);
inline constexpr auto chosen_values = values(v_pool(chosen(b, kv_idx), h, d_idx), count);
inline constexpr auto scores = q * t(keys(k_pool(chosen(b, kv_idx), h, d_idx), count)) * rsqrt(depth);
inline constexpr auto own = softmax(scores) * chosen_values;
inline constexpr auto joint = softmax(mask(scores, ((members(b, kv_idx) >> q_idx) & 1) == 1)) * chosen_values;

// What is trained: no gradient flows to an index, and one to the importance by which a key was chosen.
inline constexpr auto weighted_scores = scores + importance(b, kv_idx);
inline constexpr auto weighted =
    outputs(out = softmax(weighted_scores) * chosen_values, lse = log_sum_exp(weighted_scores));
inline constexpr auto weighted_gradient = gradient(weighted, of(out), wrt(q, k_pool, v_pool, importance));

}  // namespace chosen_keys
