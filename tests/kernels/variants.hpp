#pragma once
#include <attune/dsl.hpp>

/// A dozen variants that between them use every part of a kernel: score modifications, masks of every shape, tables,
/// dense inputs, infinities.
namespace under_test {

using namespace attune::dsl;

inline constexpr auto scale = scalar<"scale", f32>;
inline constexpr auto w = scalar<"w", i32>;
inline constexpr auto cap = scalar<"cap", f32>;
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto document = input<"document", i32>(position);
inline constexpr auto is_global = input<"is_global", boolean>(position);
inline constexpr auto table = input<"table", f32>(head, axis<"distance">);
inline constexpr auto bias = input<"bias", f32>(batch, head, query, key);

inline constexpr auto scores = q * t(k) * scale;

template <class Scores> constexpr auto attention(Scores s) {
    return outputs(out = softmax(s) * v, lse = log_sum_exp(s));
}

inline constexpr auto plain = attention(scores);
inline constexpr auto causal_mask = attention(mask(scores, causal));
inline constexpr auto causal_last = attention(mask(scores, causal_bottom_right));
inline constexpr auto sliding = attention(mask(scores, window(w, 0)));
inline constexpr auto alibi = attention(mask(scores + slopes(h) * (kv_idx - q_idx), causal));
inline constexpr auto capped = attention(softcap(cap, scores));
inline constexpr auto documents = attention(mask(scores, document(q_idx) == document(kv_idx)));
inline constexpr auto longformer = attention(mask(scores, causal && (window(w, 0) || is_global(kv_idx))));
inline constexpr auto relative = attention(scores + table(h, q_idx - kv_idx + 8));
inline constexpr auto dense_bias = attention(scores + bias(b, h, q_idx, kv_idx));
inline constexpr auto masked_by_where =
    attention(where((q_idx ^ kv_idx) % 3 != 0 && q_idx / 5 >= kv_idx / 7, scores, -inf));
inline constexpr auto energies =
    attention(where(kv_idx < q_idx, scores, -1e20));  // row 0 sees no key and is the mean of all values

}  // namespace under_test
