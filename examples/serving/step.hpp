#pragma once
#include <attune/common.hpp>

/// What the engine calls for each layer: the attention that examples/training learns, over pages as
/// attune::common::paged_attention has them. Before it the new keys and values go into their pages, as bytes with a
/// scale a row, 1/127 of its largest element.
namespace serving_step {
using namespace attune::common;

inline constexpr auto n = bound_index<"n">;
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto v_new = input<"v_new", f32>(batch, key_head, query, value_depth);

/// An element of a pool, at the place of the new token.
inline constexpr auto new_page = block_table(b, new_kv_idx / page_tokens);
inline constexpr auto new_token = new_kv_idx % page_tokens;

template <class Rows> constexpr auto scale_of(Rows rows) {
    return max(largest(n, depth, abs(rows(b, h, q_idx, n))), 1e-9) / 127.0;
}
template <class Rows> constexpr auto bytes_of(Rows rows) {
    return clamp(as_integer(round(rows(b, h, q_idx, d_idx) / scale_of(rows))), -127, 127);
}

inline constexpr auto scores = q * t(paged_keys) * rsqrt(depth) + slopes(h) * (kv_idx - new_kv_idx);
inline constexpr auto attention = softmax(mask(scores, causal_bottom_right)) * paged_values;

inline constexpr auto step = outputs(store(k_pages(new_page, h, new_token, d_idx), bytes_of(k_new)),
                                     store(k_scale(new_page, h, new_token), scale_of(k_new)),
                                     store(v_pages(new_page, h, new_token, d_idx), bytes_of(v_new)),
                                     store(v_scale(new_page, h, new_token), scale_of(v_new)), out = attention);

}  // namespace serving_step
