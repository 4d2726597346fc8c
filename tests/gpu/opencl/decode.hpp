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
inline constexpr auto at_ends = mask(softcap(20, scores), bottom_right(window(99, 0)) || !(kv_idx > 3));
inline constexpr auto ends = outputs(out = softmax(at_ends, sinks(h)) * v, lse = log_sum_exp(at_ends, sinks(h)));

}  // namespace decode
