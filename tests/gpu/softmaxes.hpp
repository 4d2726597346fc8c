#pragma once
#include "../generators/cores_formulas.hpp"

/// Formulas with several softmaxes, for a device: each goes over its own blocks of keys.
namespace softmaxes {

using namespace attune::dsl;
using namespace cores;

inline constexpr auto sinks = input<"sinks", f32>(head);

inline constexpr auto behind = mask(scores, causal_bottom_right && !bottom_right(window(31, 0)));
/// Ye et al. 2024: what two softmaxes have in common is noise.
inline constexpr auto differential =
    softmax(global) * v - lambda(h) * (softmax(mask(other_scores, causal_bottom_right)) * v);
/// A window and what lies behind it, put together again.
inline constexpr auto parts =
    merge(state(softmax(recent) * v, log_sum_exp(recent)), state(softmax(behind) * v, log_sum_exp(behind)));
inline constexpr auto merged = outputs(out = parts.out, lse = parts.lse);
/// A gate between the window and the first keys, whose number differs by head, over values of their own.
inline constexpr auto gated = gate(b, h, q_idx) * (softmax(recent) * v) +
                              (1.0 - gate(b, h, q_idx)) * (softmax(mask(scores, kv_idx < 40 + 50 * h)) * v2);
inline constexpr auto relu = unnormalized(max(scores, 0.0));
inline constexpr auto of_everything = outputs(
    out = softmax(global, sinks(h)) * v + relu * v2 / max(row_sum(relu), 1e-3), output<"near"> = softmax(recent) * v2,
    lse = log_sum_exp(global), output<"sum"> = row_sum(where(kv_idx % 3 == 0, softmax(recent), 0)),
    output<"top"> = row_maximum(other_scores));

}  // namespace softmaxes
