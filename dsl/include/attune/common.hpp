#pragma once
#include <attune/dsl.hpp>

/// The variants that most programs need, compiled ahead of time in attune::common (depths 64 and 128, f32). All of them
/// scale by rsqrt(depth), take any number of key heads that divides the heads, and end at kv_lengths where those are
/// given.
namespace attune::common {
using namespace attune::dsl;

inline constexpr auto scaled = q * t(k) * rsqrt(depth);

/// Every query sees every key.
inline constexpr auto plain_attention = softmax(scaled) * v;

/// Query i sees the keys up to i: the first query meets the first key. For the last queries of longer sequences, as
/// over a cache, see below.
inline constexpr auto causal_attention = softmax(mask(scaled, causal)) * v;

/// Query i sees the keys from i - left to i + right: window(w - 1, 0) are w keys.
inline constexpr auto left = scalar<"left", i32>;
inline constexpr auto right = scalar<"right", i32>;
inline constexpr auto window_attention = softmax(mask(scaled, window(left, right))) * v;

/// Causal, and a key weighs less the further back it is, at a slope of its head's.
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto alibi_attention = softmax(mask(scaled + slopes(h) * (kv_idx - q_idx), causal)) * v;

/// The last queries of sequences whose keys lie in a cache, one or a chunk of them: the last query meets the last key
/// in use, kv_lengths of them.
inline constexpr auto decode_attention = softmax(mask(scaled, causal_bottom_right)) * v;

/// The same with a window and with ALiBi, counted from there.
inline constexpr auto decode_window_attention = softmax(mask(scaled, bottom_right(window(left, right)))) * v;
inline constexpr auto distance = kv_idx - (q_idx + (kv_lengths(b) - query_length));
inline constexpr auto decode_alibi_attention = softmax(mask(scaled + slopes(h) * distance, causal_bottom_right)) * v;

}  // namespace attune::common
