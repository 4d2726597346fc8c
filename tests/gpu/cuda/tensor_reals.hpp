#pragma once
#include <attune/dsl.hpp>

/// Prefill in f32 by tensor cores: by 3xTF32, and by TF32 at depths of its own.
namespace tensor_reals {

using namespace attune::dsl;

inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto capped = softcap(20, q* t(k) * rsqrt(depth)) + slopes(h) * (kv_idx - q_idx);
inline constexpr auto scores = mask(capped, causal_bottom_right);
inline constexpr auto all = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
/// Keys that are turned as they are read, weights whose sum is a product with ones.
inline constexpr auto cosines = input<"cosines", f32>(position, axis<"pair">);
inline constexpr auto sines = input<"sines", f32>(position, axis<"pair">);
inline constexpr auto turned =
    softmax(mask(q * t(keys(rotary_half(k, cosines, sines))) * rsqrt(depth), bottom_right(window(99, 0)))) * v;

}  // namespace tensor_reals
