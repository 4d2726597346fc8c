#pragma once
#include <attune/dsl.hpp>

/// Attention over keys that lie in two places: a call for each, then a kernel that joins what they leave, outputs and
/// log-sum-exps. Merging is associative, so that any number of caches, threads or machines may share the keys.
/// (Flash-Decoding; cascade inference in FlashInfer)
namespace split_kv {
using namespace attune::dsl;

inline constexpr auto first_key = scalar<"first_key", i32>;  // where these keys begin among all
inline constexpr auto scores = mask(q * t(k) * rsqrt(depth), q_idx >= first_key + kv_idx);
inline constexpr auto attention =
    outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));  // (b, h, lq, dv), (b, h, lq)

inline constexpr auto out_a = input<"out_a", f32>(batch, head, query, value_depth);
inline constexpr auto out_b = input<"out_b", f32>(batch, head, query, value_depth);
inline constexpr auto lse_a = input<"lse_a", f32>(batch, head, query);
inline constexpr auto lse_b = input<"lse_b", f32>(batch, head, query);

inline constexpr auto both =
    merge(state(out_a(b, h, q_idx, d_idx), lse_a(b, h, q_idx)), state(out_b(b, h, q_idx, d_idx), lse_b(b, h, q_idx)));
inline constexpr auto merged = outputs(out = both.out, lse = both.lse);

}  // namespace split_kv
