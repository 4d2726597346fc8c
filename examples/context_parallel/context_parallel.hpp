#pragma once
#include <attune/dsl.hpp>

/// Attention with linear biases over a sequence that is spread over the ranks of an MPI job. Each rank receives the
/// keys that its queries may see.
namespace context_parallel {
using namespace attune::dsl;

inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto scores = mask(q * t(k) * rsqrt(depth) + slopes(h) * (kv_idx - q_idx), causal);
inline constexpr auto attention =
    outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));  // (b, h, lq, dv), (b, h, lq)
inline constexpr auto attention_shard = shard(attention);           // the same, over some of its queries and keys

}  // namespace context_parallel
