#pragma once
#include <attune/dsl.hpp>

/// The attention of a small language model, as it is trained: biases by distance, whose slopes are learned, and heads
/// that share keys and values. Its gradient is a graph like any other.
namespace training {
using namespace attune::dsl;

inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto scores = mask(q * t(k) * rsqrt(depth) + slopes(h) * (kv_idx - q_idx), causal);
inline constexpr auto attention = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
inline constexpr auto attention_gradient = gradient(attention);

}  // namespace training
