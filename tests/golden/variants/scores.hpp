#pragma once
#include "common.hpp"

/// Modifications of the scores by arithmetic.
namespace golden {

inline constexpr auto cap = scalar<"cap", f32>;

inline constexpr auto score_softcap = attention(softcap(cap, scores));
inline constexpr auto conv_softcap_then_mask = attention(catalogue::softcap_then_mask(cap, scores, causal));
inline constexpr auto score_causal = attention(catalogue::causal_score(scores));
inline constexpr auto score_checkerboard = attention(catalogue::checkerboard(scores));
inline constexpr auto score_head_bias = attention(catalogue::head_number_bias(scores));
inline constexpr auto score_relative = attention(catalogue::relative(scores));

inline constexpr auto score_alibi = attention(catalogue::alibi(scores, slopes(h)));
inline constexpr auto score_alibi_causal = attention(mask(catalogue::alibi(scores, slopes(h)), causal));
inline constexpr auto conv_alibi_fa = attention(catalogue::alibi_two_sided_bottom_right(scores, slopes(h)));
inline constexpr auto score_fa4_alibi = attention(catalogue::alibi_two_sided(scores, slopes(h)));

inline constexpr auto score_fa4_times_two = attention(catalogue::times_two(scores));
inline constexpr auto score_fa4_squared = attention(catalogue::squared(scores));
inline constexpr auto score_fa4_rel_bias = attention(catalogue::distance_bias(scores, 1));
inline constexpr auto score_fa4_rel_bias_x2 = attention(catalogue::distance_bias(scores, 2));
inline constexpr auto score_fa4_rel_bias_clamped =
    attention(catalogue::clamped_distance_bias(scores, scalar<"C", i32>));
inline constexpr auto bias_of_key = input<"bias", f32>(key);
inline constexpr auto score_fa4_xor =
    attention(catalogue::xor_pattern(scores, scalar<"c1", f32>, scalar<"c2", f32>, bias_of_key));

}  // namespace golden
