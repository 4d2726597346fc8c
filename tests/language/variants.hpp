#pragma once
#include <attune/dsl.hpp>

/// Graphs whose text is kept in texts/: one a feature of the language.
namespace variants {
using namespace attune::dsl;

inline constexpr auto scores = q * t(k) * rsqrt(depth);
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto document = input<"document", i32>(position);
inline constexpr auto is_global = input<"is_global", boolean>(position);
inline constexpr auto table = input<"table", f32>(head, axis<"distance">);
inline constexpr auto w = scalar<"w", i32>;
inline constexpr auto cap = scalar<"cap", f32>;

inline constexpr auto plain = softmax(scores) * v;
inline constexpr auto causal_attention = softmax(mask(scores, causal)) * v;
inline constexpr auto bottom_right_window = softmax(mask(scores, bottom_right(window(w, 0)))) * v;
inline constexpr auto alibi = softmax(mask(scores + slopes(h) * (kv_idx - q_idx), causal && window(4095, 0))) * v;
inline constexpr auto alibi_by_formula = softmax(scores + alibi_slope * (kv_idx - q_idx)) * v;
inline constexpr auto capped = softmax(mask(softcap(cap, scores), causal)) * v;
inline constexpr auto documents = softmax(mask(scores, document(q_idx) == document(kv_idx))) * v;
inline constexpr auto longformer = softmax(mask(scores, causal && (window(w, 0) || is_global(kv_idx)))) * v;
inline constexpr auto relative = softmax(scores + table(h, max(min(q_idx - kv_idx, 16), -16) + 16)) * v;
inline constexpr auto integers = softmax(mask(scores, (((q_idx / 4 % 3) ^ (kv_idx & 7)) | 1) != 2 && !(kv_idx % 5 == 4))) * v;
inline constexpr auto masked_by_where = softmax(where(q_idx >= kv_idx, scores, -inf)) * v;
inline constexpr auto fractions = softmax(scores * 0.1 + as_real(kv_idx) / key_length + kv_idx / key_length - 1.0 / 3.0) * v;
inline constexpr auto padded = softmax(mask(scores, kv_idx < kv_lengths(b))) * v;
inline constexpr auto shared = mask(scores + slopes(h) * (kv_idx - q_idx), causal);
inline constexpr auto two_outputs = outputs(out = softmax(shared) * v, lse = log_sum_exp(shared));
inline constexpr auto functions = softmax(tanh(scores) + exp(slopes(h)) * log(cap) - erf(scores) * abs(kv_idx - q_idx) + sqrt(cap) * sigmoid(cap)) * v;

}  // namespace variants
