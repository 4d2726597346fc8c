#pragma once
#include <attune/dsl.hpp>

/// The variants with which gpt.py trains.
namespace gpt {

using namespace attune::dsl;

inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto document = input<"document", i32>(position);
inline constexpr auto scores = q * t(k) * rsqrt(depth);
inline constexpr auto causal_scores = mask(scores, causal);
inline constexpr auto alibi_scores = mask(scores + slopes(h) * (kv_idx - q_idx), causal);
inline constexpr auto documents_scores = mask(scores, causal&& document(q_idx) == document(kv_idx));

inline constexpr auto causal_attention = outputs(out = softmax(causal_scores) * v, lse = log_sum_exp(causal_scores));
inline constexpr auto alibi_attention = outputs(out = softmax(alibi_scores) * v, lse = log_sum_exp(alibi_scores));
inline constexpr auto documents_attention =
    outputs(out = softmax(documents_scores) * v, lse = log_sum_exp(documents_scores));
inline constexpr auto causal_attention_gradient = gradient(causal_attention);
inline constexpr auto alibi_attention_gradient = gradient(alibi_attention, of(out), wrt(q, k, v));
inline constexpr auto documents_attention_gradient = gradient(documents_attention);

}  // namespace gpt
