#pragma once
#include <attune/dsl.hpp>
#include <attune/dsl/layers.hpp>

/// The conventions that attention systems differ in, each as attune says it: conventions.tests.cpp has the table.
namespace conventions {

using namespace attune::dsl;

inline constexpr auto scale = scalar<"scale", f32>;
inline constexpr auto cap = scalar<"cap", f32>;
inline constexpr auto past = scalar<"past", i32>;
inline constexpr auto left = scalar<"left", i32>;
inline constexpr auto right = scalar<"right", i32>;
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto sinks = input<"sinks", f32>(head);
inline constexpr auto mask_value = input<"mask_value", f32>(query, key);
inline constexpr auto scores = q * t(k) * scale;

template <class Scores> constexpr auto attention(Scores s) {
    return outputs(out = softmax(s) * v, lse = log_sum_exp(s));
}

inline constexpr auto plain = attention(scores);

// --- alignment of causal masks
inline constexpr auto top_left = attention(mask(scores, causal));
inline constexpr auto last_meets_last = attention(mask(scores, causal_bottom_right));
inline constexpr auto behind_the_past = attention(mask(scores, q_idx + past >= kv_idx));

// --- windows
inline constexpr auto window_top_left = attention(mask(scores, window(left, right)));
inline constexpr auto window_bottom_right = attention(mask(scores, bottom_right(window(left, right))));

// --- cap and mask
inline constexpr auto capped_then_masked = attention(mask(softcap(cap, scores), causal));
inline constexpr auto masked_then_capped = attention(softcap(cap, where(causal, scores, -inf)));

inline constexpr auto p = scalar<"p", f32>;
inline constexpr auto dropped = outputs(out = dropout(softmax(mask(scores, causal_bottom_right)), p, 7) * v,
                                        lse = log_sum_exp(mask(scores, causal_bottom_right)));
inline constexpr auto all_dropped = outputs(out = dropout(softmax(scores), 1.0, 7) * v, lse = log_sum_exp(scores));
inline constexpr auto without_limits = attention(mask(softcap(0, scores), window(-1, -1)));

// --- log-sum-exp
inline constexpr auto base_2 = outputs(out = softmax(mask(scores, causal_bottom_right)) * v,
                                       lse = log_sum_exp(mask(scores, causal_bottom_right)) / 0.6931471805599453);

// --- distances of ALiBi
inline constexpr auto alibi_absolute =
    attention(scores - slopes(h) * abs(q_idx + (key_length - query_length) - kv_idx));
inline constexpr auto alibi_signed = attention(scores + slopes(h) * (kv_idx - q_idx));
inline constexpr auto alibi_power_of_two = attention(scores + alibi_slope * (kv_idx - q_idx));
inline constexpr auto alibi_by_mask = attention(scores + slopes(h) * mask_value(q_idx, kv_idx));

// --- sinks
inline constexpr auto sunk = outputs(out = softmax(mask(scores, causal_bottom_right), sinks(h)) * v,
                                     lse = log_sum_exp(mask(scores, causal_bottom_right), sinks(h)));
inline constexpr auto sunk_base_2 =
    outputs(out = softmax(scores, sinks(h) * 0.6931471805599453) * v,
            lse = log_sum_exp(scores, sinks(h) * 0.6931471805599453) / 0.6931471805599453);
inline constexpr auto lse_a = input<"lse_a", f32>(batch, head, query);
inline constexpr auto out_a = input<"out_a", f32>(batch, head, query, value_depth);
inline constexpr auto next =
    merge(state(out_a(b, h, q_idx, d_idx), lse_a(b, h, q_idx)), state(softmax(scores) * v, log_sum_exp(scores)));
inline constexpr auto next_chunk = outputs(out = next.out, lse = next.lse);
inline constexpr auto first_chunk = outputs(out = softmax(scores, sinks(h)) * v, lse = log_sum_exp(scores, sinks(h)));

// --- where the scale goes
inline constexpr auto root = sqrt(scale);
inline constexpr auto scale_on_both =
    attention(queries(q(b, h, q_idx, d_idx) * root) * t(keys(k(b, h, kv_idx, d_idx) * root)));
inline constexpr auto scaled_then_capped = attention(softcap(cap, scores));

}  // namespace conventions
