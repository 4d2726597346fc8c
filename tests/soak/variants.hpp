#pragma once
#include <attune/catalogue/selectors.hpp>
#include <attune/dsl.hpp>

/// Of kinds that no library of the other tests has together: a step that stores, blocks that a call chooses, a shard.
namespace soaked {
using namespace attune::dsl;

inline constexpr auto masked = mask(q * t(k) * rsqrt(depth), causal_bottom_right);
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto v_new = input<"v_new", f32>(batch, key_head, query, value_depth);
inline constexpr auto step =
    outputs(store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx)),
            store(v(b, h, new_kv_idx, d_idx), v_new(b, h, q_idx, d_idx)), out = softmax(masked) * v);

inline constexpr int size = 16;
inline constexpr auto count = scalar<"count", i32>;
inline constexpr auto chosen =
    softmax(mask(q * t(k) * rsqrt(depth),
                 attune::catalogue::pooled_blocks(attune::catalogue::mean_of_queries(q, size),
                                                  attune::catalogue::mean_of_keys(k, size, depth), size, count))) *
    v;

inline constexpr auto causal_scores = mask(q * t(k) * rsqrt(depth), causal);
inline constexpr auto causal_shard = shard(outputs(out = softmax(causal_scores) * v, lse = log_sum_exp(causal_scores)));

}  // namespace soaked
