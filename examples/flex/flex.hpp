#pragma once
#include <attune/dsl.hpp>

/// FlexAttention's spelling: lambdas of a score and its indices, called once and kept as a formula. This is the graph
/// of examples/alibi, and its kernel. (FlexAttention, PyTorch 2.5)
namespace flex_example {
using namespace attune::dsl;

inline constexpr auto slopes = input<"slopes", f32>(head);

inline constexpr auto biased =
    score_mod([](auto score, auto, auto h, auto q_idx, auto kv_idx) { return score + slopes(h) * (kv_idx - q_idx); });
inline constexpr auto no_later_key = mask_mod([](auto, auto, auto q_idx, auto kv_idx) { return q_idx >= kv_idx; });

inline constexpr auto attention = flex(biased, no_later_key);  // (b, h, lq, dv)

}  // namespace flex_example
