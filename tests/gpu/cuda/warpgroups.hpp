#pragma once
#include <attune/dsl.hpp>

/// Prefill by products of warpgroups: a formula of a pair, of tables, of weights, and a row beside the output.
namespace warpgroups {

using namespace attune::dsl;

inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto documents = input<"documents", i32>(batch, key);
inline constexpr auto capped = softcap(20, q* t(k) * rsqrt(depth)) + slopes(h) * (kv_idx - q_idx);
inline constexpr auto scores = mask(capped, causal_bottom_right&& documents(b, kv_idx) < 2);
inline constexpr auto kept = where((q_idx * 7 + kv_idx * 3) % 5 != 0, softmax(scores) * 1.25, 0);
inline constexpr auto all = outputs(out = kept * v, lse = log_sum_exp(scores));

/// Rows of codes, which are computed where others are copied.
inline constexpr auto k_codes = input<"k_codes", i8>(batch, key_head, key, depth);
inline constexpr auto k_scale = input<"k_scale", f32>(batch, key_head, key);
inline constexpr auto of_codes =
    softmax(
        mask(q * t(keys(k_codes(b, h, kv_idx, d_idx) * k_scale(b, h, kv_idx))) * rsqrt(depth), causal_bottom_right)) *
    v;

}  // namespace warpgroups
