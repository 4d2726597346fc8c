#pragma once
#include <attune/dsl.hpp>

/// Few queries over many keys: what a device's second kernel is for.
namespace decode {

using namespace attune::dsl;

inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto sinks = input<"sinks", f32>(head);
inline constexpr auto scores = q * t(k) * rsqrt(depth);

inline constexpr auto biased = mask(scores + slopes(h) * -(q_idx - kv_idx), causal_bottom_right);
inline constexpr auto last = outputs(out = softmax(biased) * v, lse = log_sum_exp(biased));
/// Keys at both ends: what lies between is visited by no task.
inline constexpr auto bent = sigmoid(scores) + exp2(-as_real(h)) + sin(scores) * cos(scores) + atan2(scores, 2) -
                             log2(abs(scores) + 1) * pow(abs(scores) + 1, 0.25) + fmod(kv_idx, 3) +
                             floor(kv_idx * 0.25);
inline constexpr auto at_ends = mask(softcap(20, scores) + 0.01 * bent, bottom_right(window(99, 0)) || !(kv_idx > 3));
inline constexpr auto ends = outputs(out = softmax(at_ends, sinks(h)) * v, lse = log_sum_exp(at_ends, sinks(h)));

}  // namespace decode
