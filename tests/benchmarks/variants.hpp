#pragma once
#include <attune/dsl.hpp>

/// What the benchmarks run. All without run-time scalars, so that a call differs from its PyTorch peer in nothing but the kernel.
namespace bench {
using namespace attune::dsl;

inline constexpr auto scores = q * t(k) * rsqrt(depth);
inline constexpr auto slopes = input<"slopes", f32>(head);

inline constexpr auto full_attention = softmax(scores) * v;
inline constexpr auto causal_attention = softmax(mask(scores, causal)) * v;
inline constexpr auto window_attention = softmax(mask(scores, window(255, 0))) * v;  // 256 keys: the query's own and 255 before it
inline constexpr auto alibi_attention = softmax(mask(scores + slopes(h) * (kv_idx - q_idx), causal)) * v;
inline constexpr auto softcap_attention = softmax(mask(softcap(30.0, scores), causal)) * v;

}  // namespace bench
