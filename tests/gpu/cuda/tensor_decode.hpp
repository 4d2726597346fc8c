#pragma once
#include <attune/dsl.hpp>

/// Few queries by tensor cores: the rows of a key head's group, of which a tile of 16 has few or many in use.
namespace tensor_decode {

using namespace attune::dsl;

inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto sinks = input<"sinks", f32>(head);
inline constexpr auto scores = q * t(k) * rsqrt(depth);

inline constexpr auto full = softmax(scores) * v;
/// Rows see different keys, and numbers of a row are those of its query and its head.
inline constexpr auto biased = mask(scores + slopes(h) * -(q_idx - kv_idx), causal_bottom_right);
inline constexpr auto last = outputs(out = softmax(biased) * v, lse = log_sum_exp(biased));
/// Keys at both ends: what lies between is visited by no task. A sink.
inline constexpr auto at_ends = mask(softcap(20, scores), bottom_right(window(99, 0)) || !(kv_idx > 3));
inline constexpr auto ends = softmax(at_ends, sinks(h)) * v;
/// Keys and values in pages of 16, of which a table says where they lie.
inline constexpr auto block_table = input<"block_table", i32>(batch, axis<"block">);
inline constexpr auto k_pages = input<"k_pages", bf16>(axis<"page">, key_head, axis<"token">, depth);
inline constexpr auto v_pages = input<"v_pages", bf16>(axis<"page">, key_head, axis<"token">, value_depth);
inline constexpr auto length = extent<1>(block_table) * 16;
inline constexpr auto page = block_table(b, kv_idx / 16);
inline constexpr auto of_pages = q * t(keys(k_pages(page, h, kv_idx % 16, d_idx), length)) * rsqrt(depth);
inline constexpr auto paged =
    softmax(mask(of_pages, causal_bottom_right)) * values(v_pages(page, h, kv_idx % 16, d_idx), length);
/// Compiled for f16 with FINITE, values of another depth than keys.
inline constexpr auto promised =
    outputs(out = softmax(mask(scores, causal_bottom_right)) * v, lse = log_sum_exp(mask(scores, causal_bottom_right)));

}  // namespace tensor_decode
