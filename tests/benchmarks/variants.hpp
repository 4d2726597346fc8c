#pragma once
#include <attune/dsl.hpp>

/// The variants of the benchmarks. All without run-time scalars, so that a call differs from its PyTorch peer in
/// nothing but the kernel.
namespace bench {
using namespace attune::dsl;

inline constexpr auto scores = q * t(k) * rsqrt(depth);
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto document = input<"document", i32>(position);
inline constexpr auto bias = input<"bias", f32>(batch, head, query, key);

inline constexpr auto full_attention = softmax(scores) * v;
inline constexpr auto causal_attention = softmax(mask(scores, causal)) * v;
inline constexpr auto window_attention =
    softmax(mask(scores, window(255, 0))) * v;  // 256 keys: the query's own and 255 before it
inline constexpr auto alibi_attention = softmax(mask(scores + slopes(h) * (kv_idx - q_idx), causal)) * v;
inline constexpr auto softcap_attention = softmax(mask(softcap(30.0, scores), causal)) * v;
inline constexpr auto documents_attention = softmax(mask(scores, document(q_idx) == document(kv_idx))) * v;
// clang-format off
inline constexpr auto documents_causal_attention =
    softmax(mask(scores, causal && document(q_idx) == document(kv_idx))) * v;
// clang-format on
inline constexpr auto bias_attention = softmax(scores + bias(b, h, q_idx, kv_idx)) * v;

/// Ye et al. 2024: two softmaxes over the same values, of which one is subtracted. `slopes` weigh the second.
inline constexpr auto q2 = input<"q2", f32>(batch, head, query, depth);
inline constexpr auto k2 = input<"k2", f32>(batch, key_head, key, depth);
inline constexpr auto differential_attention =
    causal_attention - slopes(h) * (softmax(mask(q2 * t(k2) * rsqrt(depth), causal)) * v);

// Again, for other element types and depths.
inline constexpr auto full_of_halves = full_attention;
inline constexpr auto causal_of_halves = causal_attention;
inline constexpr auto full_of_depths = full_attention;

}  // namespace bench
