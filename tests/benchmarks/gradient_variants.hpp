#pragma once
#include <attune/dsl.hpp>

/// Forward passes and their gradients, as training has them.
namespace bench {

using namespace attune::dsl;

inline constexpr auto plain_scores = q * t(k) * rsqrt(depth);
inline constexpr auto trained_slopes = input<"slopes", f32>(head);
inline constexpr auto trained_document = input<"document", i32>(position);
inline constexpr auto trained_bias = input<"bias", f32>(head, query, key);

/// The output and the log-sum-exp, which gradients need.
constexpr auto trained(const auto& scores) { return outputs(out = softmax(scores) * v, lse = log_sum_exp(scores)); }

inline constexpr auto trained_full = trained(plain_scores);
inline constexpr auto trained_causal = trained(mask(plain_scores, causal));
inline constexpr auto trained_alibi = trained(mask(plain_scores + trained_slopes(h) * (kv_idx - q_idx), causal));
inline constexpr auto trained_window = trained(mask(plain_scores, window(255, 0)));
inline constexpr auto trained_documents =
    trained(mask(plain_scores, causal&& trained_document(q_idx) == trained_document(kv_idx)));
inline constexpr auto trained_softcap = trained(mask(softcap(30.0, plain_scores), causal));
inline constexpr auto trained_biased = trained(plain_scores + trained_bias(h, q_idx, kv_idx));

inline constexpr auto full_gradient = gradient(trained_full);
inline constexpr auto causal_gradient = gradient(trained_causal);
inline constexpr auto alibi_gradient = gradient(trained_alibi);
inline constexpr auto alibi_of_q_k_v_gradient = gradient(trained_alibi, of(out), wrt(q, k, v));
inline constexpr auto window_gradient = gradient(trained_window);
inline constexpr auto documents_gradient = gradient(trained_documents);
inline constexpr auto softcap_gradient = gradient(trained_softcap);
inline constexpr auto biased_gradient = gradient(trained_biased);

// Again, of bf16.
inline constexpr auto trained_full_of_halves = trained_full;
inline constexpr auto trained_causal_of_halves = trained_causal;
inline constexpr auto full_of_halves_gradient = gradient(trained_full_of_halves);
inline constexpr auto causal_of_halves_gradient = gradient(trained_causal_of_halves);

}  // namespace bench
