#pragma once
#include "common.hpp"

/// Distances between query and key, and where the two sequences are aligned.
namespace golden {

inline constexpr auto left = scalar<"left", i32>;
inline constexpr auto right = scalar<"right", i32>;
inline constexpr auto step = scalar<"d", i32>;

inline constexpr auto conv_causal_bottom_right = masked(causal_bottom_right);
inline constexpr auto conv_kv_lengths_causal_br = masked(catalogue::causal_up_to(kv_lengths(b)));

inline constexpr auto mask_sliding_window = masked(catalogue::sliding_window(w));
inline constexpr auto conv_window_w_keys = masked(catalogue::last_keys(w));
inline constexpr auto conv_window_left_only = masked(catalogue::window_back(left));
inline constexpr auto conv_window_left_right = masked(window(left, right));
inline constexpr auto conv_window_left_right_br = masked(bottom_right(window(left, right)));

inline constexpr auto mask_dilated_window = masked(catalogue::dilated_window(w, step));
inline constexpr auto mask_fa4_dilated_causal = masked(catalogue::dilated_causal(w, step));
inline constexpr auto is_global = input<"is_global", boolean>(position);
inline constexpr auto mask_global_window = masked(catalogue::global_window(w, is_global));
inline constexpr auto threshold = input<"threshold", i32>(key);
inline constexpr auto mask_fa4_key_threshold = masked(catalogue::key_threshold(threshold));

inline constexpr auto windows = input<"windows", i32>(head);
inline constexpr auto conv_gqa_per_head_mod =
    attention(mask(catalogue::alibi(scores, slopes(h)), catalogue::window_per_head(windows)));
inline constexpr auto conv_decode_window_alibi =
    attention(mask(catalogue::alibi_bottom_right(scores, slopes(h)), bottom_right(catalogue::sliding_window(w))));

}  // namespace golden
