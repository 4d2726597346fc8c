#pragma once
#include "decoder.hpp"

#include <attune/common.hpp>
#include <attune/dsl/recurrent.hpp>

/// What the engine calls for each layer that attends: the attention that examples/training learns, over pages as
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

/// What it calls for each layer with a state: a gated delta rule behind a short convolution, as three of four layers of
/// Qwen3-Next have it. Queries, keys and values of a token lie side by side; the convolution sees the rows before.
inline constexpr auto mixed = input<"mixed", f32>(batch, query, axis<"channel">);
inline constexpr auto mixed_before = input<"mixed_before", f32>(batch, axis<"row">, axis<"channel">);
inline constexpr auto taps = input<"taps", f32>(axis<"channel">, axis<"tap">);
inline constexpr auto decay = input<"decay", f32>(batch, head, query);
inline constexpr auto step_size = input<"step_size", f32>(batch, head, query);
inline constexpr auto a_log = input<"a_log", f32>(head);
inline constexpr auto dt_bias = input<"dt_bias", f32>(head);
inline constexpr auto state_in = input<"state_in", f32>(batch, head, depth, value_depth);

inline constexpr auto convolved = causal_convolution(mixed, taps, mixed_before);
inline constexpr auto shared_head = h / (serving::state_heads / serving::state_key_heads);
template <int First> constexpr auto shared_row() {
    return unit(channels(q_idx, [](auto d) { return silu(convolved((First + shared_head) * depth + d)); }), 1e-6);
}
inline constexpr auto key = shared_row<serving::state_key_heads>();
inline constexpr auto value = silu(convolved(2 * serving::state_key_heads * depth + h * value_depth + d_idx));
inline constexpr auto states = recurrence(state_in, [](auto S) {
    const auto kept = exp(-exp(a_log(h)) * softplus(decay(b, h, q_idx) + dt_bias(h))) * S;
    return kept + t(key) * (sigmoid(step_size(b, h, q_idx)) * (value - key * kept));
});
inline constexpr auto recurrent_step =
    outputs(out = shared_row<0>() * states * rsqrt(depth), output<"state_out"> = last(states));

}  // namespace serving_step
