#pragma once
#include <attune/dsl.hpp>

/// Forward passes and their gradients, as training has them.
namespace bench {

using namespace attune::dsl;

inline constexpr auto plain_scores = q * t(k) * rsqrt(depth);
inline constexpr auto causal_scores = mask(plain_scores, causal);
inline constexpr auto trained_slopes = input<"slopes", f32>(head);
inline constexpr auto alibi_scores = mask(plain_scores + trained_slopes(h) * (kv_idx - q_idx), causal);
inline constexpr auto trained_full = outputs(out = softmax(plain_scores) * v, lse = log_sum_exp(plain_scores));
inline constexpr auto trained_causal = outputs(out = softmax(causal_scores) * v, lse = log_sum_exp(causal_scores));
inline constexpr auto trained_alibi = outputs(out = softmax(alibi_scores) * v, lse = log_sum_exp(alibi_scores));
inline constexpr auto full_gradient = gradient(trained_full);
inline constexpr auto causal_gradient = gradient(trained_causal);
inline constexpr auto alibi_gradient = gradient(trained_alibi);

}  // namespace bench
