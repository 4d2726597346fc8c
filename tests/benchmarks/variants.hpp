#pragma once
#include <attune/catalogue/selectors.hpp>
#include <attune/dsl.hpp>

/// What the benchmarks run. All without run-time scalars, so that a call differs from its PyTorch peer in nothing but
/// the kernel.
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

// Again, for other element types and depths.
inline constexpr auto full_of_halves = full_attention;
inline constexpr auto causal_of_halves = causal_attention;
inline constexpr auto full_of_depths = full_attention;

}  // namespace bench
