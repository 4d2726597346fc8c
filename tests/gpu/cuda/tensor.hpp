#pragma once
#include <attune/dsl.hpp>

/// Prefill by tensor cores: what a formula makes of a pair stays an expression, whatever it is.
namespace tensor {

using namespace attune::dsl;

inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto sinks = input<"sinks", f32>(head);
inline constexpr auto documents = input<"documents", i32>(batch, key);
inline constexpr auto bias = input<"bias", f32>(head, query, key);
inline constexpr auto scores = q * t(k) * rsqrt(depth);

inline constexpr auto full = softmax(scores) * v;
/// Masked by position, in blocks that are skipped, visited and masked, and visited without a mask.
inline constexpr auto biased = mask(scores + slopes(h) * -(q_idx - kv_idx), causal_bottom_right);
inline constexpr auto last = outputs(out = softmax(biased) * v, lse = log_sum_exp(biased));
/// Keys at both ends, scores that are no longer linear, a sink.
inline constexpr auto at_ends = mask(softcap(20, scores), bottom_right(window(99, 0)) || !(kv_idx > 3));
inline constexpr auto ends = softmax(at_ends, sinks(h)) * v;
/// Tables of a key and of a pair, of which nothing is known before; weights that are not softmax's own.
inline constexpr auto of_documents = mask(scores + bias(h, q_idx, kv_idx), documents(b, kv_idx) < 2 && kv_idx <= q_idx);
inline constexpr auto dropped = where((q_idx * 7 + kv_idx * 3) % 5 != 0, softmax(of_documents) * 1.25, 0) * v;

}  // namespace tensor
