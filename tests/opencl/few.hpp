#pragma once
#include <attune/dsl.hpp>

/// Few queries over many keys: what a device's second kernel is for.
namespace few {

using namespace attune::dsl;

inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto sinks = input<"sinks", f32>(head);
inline constexpr auto halved = output<"halved">;
inline constexpr auto shared = input<"shared", f32>(key_head);
inline constexpr auto scores = q * t(k) * rsqrt(depth);

template <class Scores>
constexpr auto attention(Scores s) { return outputs(out = softmax(s) * v, lse = log_sum_exp(s)); }

inline constexpr auto plain = attention(scores);
inline constexpr auto last = attention(mask(scores + slopes(h) * (kv_idx - q_idx), causal_bottom_right));
/// Keys at both ends: what lies between is visited by no task.
inline constexpr auto ends = outputs(out = softmax(mask(softcap(20, scores), bottom_right(window(99, 0)) || kv_idx < 4), sinks(h)) * v,
                                     lse = log_sum_exp(mask(softcap(20, scores), bottom_right(window(99, 0)) || kv_idx < 4), sinks(h)));
/// What a head sees differs from head to head, and values are weighed by other weights than softmax's.
inline constexpr auto by_head = mask(scores * slopes(h), kv_idx % 300 <= 40 + 10 * h);
inline constexpr auto bent = outputs(out = (softmax(by_head) * where(kv_idx % 2 == 0, 1.0, 0.5)) * v, halved = row_sum(softmax(by_head) * where(kv_idx % 2 == 0, 1.0, 0.5)));
inline constexpr auto logistic = outputs(out = unnormalized(1.0 / (1.0 + exp(-mask(scores, causal_bottom_right)))) * v);
inline constexpr auto grown = outputs(out = softmax(q * t(keys(k(b, h, kv_idx, d_idx) * shared(h))) * rsqrt(depth)) * v);

}  // namespace few
