#pragma once
#include <attune/dsl.hpp>

/// Two outputs, numbers of every kind, and gradients.
namespace test {
using namespace attune::dsl;

inline constexpr auto cap = scalar<"cap", f32>;
inline constexpr auto first = scalar<"first", i32>;
inline constexpr auto scores = mask(cap * tanh(q * t(k) * rsqrt(depth) / cap), kv_idx >= first);
inline constexpr auto capped = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));

inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto sloped = mask(q * t(k) * rsqrt(depth) + slopes(h) * (kv_idx - q_idx), causal);
inline constexpr auto alibi = outputs(out = softmax(sloped) * v, lse = log_sum_exp(sloped));
inline constexpr auto alibi_gradient = gradient(alibi);

/// Of both outputs, and not of v.
inline constexpr auto capped_gradient = gradient(capped, of(out, lse), wrt(q, k));

/// A temperature for all scores, which is learned, and one that is a number.
inline constexpr auto learned = input<"learned", f32>(axis<"one">);
inline constexpr auto temperature = scalar<"temperature", f32>;
inline constexpr auto warm = mask(q * t(k) * (learned(0) * temperature), causal);
inline constexpr auto warmed = outputs(out = softmax(warm) * v, lse = log_sum_exp(warm));
inline constexpr auto warmed_gradient = gradient(warmed);

/// What speaks of the batch element as a number, a number of f64, and gradients of what broadcasts and of bf16.
inline constexpr auto bias = input<"bias", bf16>(head, query, key);
inline constexpr auto scale = scalar<"scale", f64>;
inline constexpr auto biased = q * t(k) * scale + bias(h, q_idx, kv_idx);
inline constexpr auto dropped =
    outputs(out = where(keep(0.5, 7, 0), softmax(biased), 0) * v, lse = log_sum_exp(biased));
inline constexpr auto dropped_gradient = gradient(dropped);

}  // namespace test
