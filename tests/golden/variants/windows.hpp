#pragma once
#include "common.hpp"

/// Distances between query and key, and where the two sequences are aligned.
namespace golden {

inline constexpr auto left = scalar<"left", i32>;
inline constexpr auto right = scalar<"right", i32>;
inline constexpr auto step = scalar<"d", i32>;

inline constexpr auto conv_causal_bottom_right = attention(mask(scores, causal_bottom_right));

/// w + 1 keys: both ends of a window are inclusive.
inline constexpr auto mask_sliding_window = attention(mask(scores, window(w, 0)));
inline constexpr auto conv_window_w_keys = attention(mask(scores, window(w - 1, 0)));
inline constexpr auto conv_window_left_only = attention(mask(scores, kv_idx >= q_idx - left));
inline constexpr auto conv_window_left_right = attention(mask(scores, window(left, right)));
inline constexpr auto conv_window_left_right_br = attention(mask(scores, bottom_right(window(left, right))));

inline constexpr auto mask_dilated_window = attention(mask(scores, abs(q_idx - kv_idx) <= w && abs(q_idx - kv_idx) % step == 0));
inline constexpr auto mask_fa4_dilated_causal =
    attention(mask(scores, q_idx >= kv_idx && q_idx - kv_idx < w && (q_idx - kv_idx) % step == 0));

inline constexpr auto windows = input<"windows", i32>(head);
inline constexpr auto conv_gqa_per_head_mod = attention(mask(scores + slopes(h) * (kv_idx - q_idx), causal && q_idx - kv_idx <= windows(h)));

inline constexpr auto last_aligned = q_idx + (key_length - query_length);
inline constexpr auto conv_decode_window_alibi = attention(mask(scores + slopes(h) * (kv_idx - last_aligned), bottom_right(window(w, 0))));

inline constexpr auto conv_kv_lengths_causal_br = attention(mask(scores, kv_idx <= q_idx + (kv_lengths(b) - query_length)));

}  // namespace golden
