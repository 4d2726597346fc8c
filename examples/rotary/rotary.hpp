#pragma once
#include <attune/dsl.hpp>

/// Rotary position embedding inside the kernel: queries and keys are normalised and turned as they are read, never
/// stored. The angles come as two tables, so that any frequencies and any scaling of them will do. (RoPE, Su et al.
/// 2021; the norms of queries and keys, as in Qwen 3)
namespace rotary {
using namespace attune::dsl;

inline constexpr auto cosine = input<"cosine", f32>(position, axis<"pair">);
inline constexpr auto sine = input<"sine", f32>(position, axis<"pair">);
inline constexpr auto q_gain = input<"q_gain", f32>(depth);
inline constexpr auto k_gain = input<"k_gain", f32>(depth);

inline constexpr auto turned_q = queries(rotary_half(rms_norm(q, q_gain, 1e-6), cosine, sine));      // (b, h, lq, d)
inline constexpr auto turned_k = keys(rotary_half(rms_norm(k, k_gain, 1e-6), cosine, sine));         // (b, h, lk, d)
inline constexpr auto attention = softmax(mask(turned_q * t(turned_k) * rsqrt(depth), causal)) * v;  // (b, h, lq, dv)

}  // namespace rotary
