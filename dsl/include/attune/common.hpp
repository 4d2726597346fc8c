#pragma once
#include <attune/dsl.hpp>

/// The variants that most programs need, compiled ahead of time in attune::common (depths 64 and 128, f32). All of them
/// scale by rsqrt(depth), take any number of key heads that divides the number of heads, and end at kv_lengths if a
/// call passes them.
namespace attune::common {
using namespace attune::dsl;

inline constexpr auto scaled = q * t(k) * rsqrt(depth);

/// Every query sees every key.
inline constexpr auto plain_attention = softmax(scaled) * v;

/// Query i sees the keys up to i: the first query meets the first key. For the last queries of longer sequences, as
/// over a cache, see below.
inline constexpr auto causal_attention = softmax(mask(scaled, causal)) * v;

/// Query i sees the keys from i - left to i + right: window(w - 1, 0) are w keys. A side below 0 has no limit.
inline constexpr auto left = scalar<"left", i32>;
inline constexpr auto right = scalar<"right", i32>;
inline constexpr auto window_attention = softmax(mask(scaled, window(left, right))) * v;

/// Causal, and a key weighs less the further back it is: each head has its slope.
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto alibi_attention = softmax(mask(scaled + slopes(h) * (kv_idx - q_idx), causal)) * v;

/// One query or a chunk of queries at the end of each sequence, over keys in a cache: the last query meets the last key
/// in use, as kv_lengths says.
inline constexpr auto decode_attention = softmax(mask(scaled, causal_bottom_right)) * v;

/// The same with a window, and with ALiBi. Distances are counted from the query's place in the sequence.
inline constexpr auto decode_window_attention = softmax(mask(scaled, bottom_right(window(left, right)))) * v;
inline constexpr auto distance = kv_idx - (q_idx + (kv_lengths(b) - query_length));
inline constexpr auto decode_alibi_attention = softmax(mask(scaled + slopes(h) * distance, causal_bottom_right)) * v;

/// The same over a cache of bytes in pages. Row b of the block table names the pages of sequence b; the shape of the
/// pools says how many keys a page holds. Each key and each value has a scale. Every call refuses an entry in use that
/// is no page; entries beyond kv_lengths may be anything.
inline constexpr auto block_table = input<"block_table", i32>(batch, axis<"block">);
inline constexpr auto k_pages = input<"k_pages", i8>(axis<"page">, key_head, axis<"token">, depth);
inline constexpr auto k_scale = input<"k_scale", f32>(axis<"page">, key_head, axis<"token">);
inline constexpr auto v_pages = input<"v_pages", i8>(axis<"page">, key_head, axis<"token">, value_depth);
inline constexpr auto v_scale = input<"v_scale", f32>(axis<"page">, key_head, axis<"token">);

inline constexpr auto page_tokens =
    same(same(extent<2>(k_pages), extent<2>(v_pages)), same(extent<2>(k_scale), extent<2>(v_scale)));
inline constexpr auto room = extent<1>(block_table) * page_tokens;
inline constexpr auto page = block_table(b, kv_idx / page_tokens);
inline constexpr auto token = kv_idx % page_tokens;
inline constexpr auto paged_keys = keys(k_pages(page, h, token, d_idx) * k_scale(page, h, token), room);
inline constexpr auto paged_values = values(v_pages(page, h, token, d_idx) * v_scale(page, h, token), room);
inline constexpr auto paged_attention =
    softmax(mask(q * t(paged_keys) * rsqrt(depth), causal_bottom_right)) * paged_values;

}  // namespace attune::common
