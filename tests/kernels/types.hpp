#pragma once
#include <attune/dsl.hpp>

/// Variants for element types: one that every type and level is tried with, and two that read and write by every path a
/// kernel has.
namespace under_test {

using namespace attune::dsl;

inline constexpr auto scaled = q * t(k) * rsqrt(depth);
inline constexpr auto mixed =
    outputs(out = softmax(mask(scaled, causal_bottom_right)) * v, lse = log_sum_exp(mask(scaled, causal_bottom_right)));

inline constexpr auto slope = input<"slope", bf16>(head);
inline constexpr auto near_bias = input<"near_bias", f16>(head, axis<"distance">);
inline constexpr auto sink = input<"sink", f32>(head);
// clang-format off
inline constexpr auto bent =
    mask(softcap(4.0, scaled) + slope(h) * (kv_idx - q_idx) + near_bias(h, (q_idx - kv_idx) % 17),
         causal_bottom_right && window(70, 0));
// clang-format on
inline constexpr auto bent_pairs = outputs(out = softmax(bent, sink(h)) * v, lse = log_sum_exp(bent, sink(h)),
                                           output<"weights"> = softmax(bent, sink(h)));

inline constexpr auto shifted_q =
    queries(q(b, h, q_idx, d_idx) + where(d_idx % 2 == 0, -q(b, h, q_idx, d_idx + 1), q(b, h, q_idx, d_idx - 1)));
inline constexpr auto doubled_k = keys(k(b, h, kv_idx, d_idx) * 0.5);
inline constexpr auto formed =
    outputs(out = softmax(shifted_q * t(doubled_k) * rsqrt(depth)) * values(v(b, h, kv_idx, d_idx) * 2.0),
            lse = log_sum_exp(shifted_q * t(doubled_k) * rsqrt(depth)));

}  // namespace under_test
