#pragma once
#include "../gradients/layers.hpp"
#include "../gradients/variants.hpp"
#include "../kernels/language.hpp"
#include "../kernels/variants.hpp"
#include "cores_formulas.hpp"

#include <attune/dsl/recurrent.hpp>

/// Formulas whose kernels are planned, beside those of other tests: caches of codes, rows that keys and values share,
/// what is computed before the attention, stores.
namespace planned {

using namespace attune::dsl;

inline constexpr auto k8 = input<"k8", i8>(batch, key_head, key, depth);
inline constexpr auto v8 = input<"v8", i8>(batch, key_head, key, value_depth);
inline constexpr auto k_scale = input<"k_scale", f32>(batch, key_head, key);
inline constexpr auto v_scale = input<"v_scale", f32>(batch, key_head, key);
inline constexpr auto cached_keys = keys(k8(b, h, kv_idx, d_idx) * k_scale(b, h, kv_idx));
inline constexpr auto cached_values = values(v8(b, h, kv_idx, d_idx) * v_scale(b, h, kv_idx));
inline constexpr auto of_codes = softmax(q * t(cached_keys) * rsqrt(depth)) * cached_values;
inline constexpr auto hidden = mask(queries(quantized<i8>(q)) * t(cached_keys) * rsqrt(depth), causal_bottom_right);
inline constexpr auto one_digit = quantized<u8>(softmax(hidden)) * cached_values;
inline constexpr auto two_digits = quantized<i16>(softmax(hidden)) * cached_values;

inline constexpr auto rows = input<"rows", f32>(batch, key, depth);
inline constexpr auto latents = softmax(mask(q * t(keys(rows(b, kv_idx, d_idx))) * rsqrt(depth), causal_bottom_right)) *
                                values(rows(b, kv_idx, d_idx));

inline constexpr auto table = input<"table", i32>(batch, axis<"block">);
inline constexpr auto k_pages = input<"k_pages", f32>(axis<"page">, key_head, axis<"token">, depth);
inline constexpr auto v_pages = input<"v_pages", f32>(axis<"page">, key_head, axis<"token">, value_depth);
inline constexpr auto slots = extent<1>(table) * 16;
inline constexpr auto pages =
    softmax(q * t(keys(k_pages(table(b, kv_idx / 16), h, kv_idx % 16, d_idx), slots)) * rsqrt(depth)) *
    values(v_pages(table(b, kv_idx / 16), h, kv_idx % 16, d_idx), slots);

inline constexpr auto n = bound_index<"n">;
inline constexpr auto importance = input<"importance", f32>(batch, head, axis<"block">);
inline constexpr auto of_blocks = precomputed(importance(b, h, n), n, extent<2>(importance));
inline constexpr auto chosen = softmax(mask(q * t(k) * rsqrt(depth), top_k(of_blocks, 4)(b, h, kv_idx / 16))) * v;
inline constexpr auto of_keys = precomputed(importance(b, h, n), n, key_length);
inline constexpr auto chosen_keys = softmax(mask(q * t(k) * rsqrt(depth), top_k(of_keys, 4)(b, h, kv_idx))) * v;

inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto v_new = input<"v_new", f32>(batch, key_head, query, value_depth);
inline constexpr auto stored =
    outputs(store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx)),
            store(v(b, h, new_kv_idx, d_idx), v_new(b, h, q_idx, d_idx)), out = softmax(q * t(k) * rsqrt(depth)) * v);

inline constexpr auto q_row = input<"q_row", f32>(batch, head, query, depth);
inline constexpr auto k_row = input<"k_row", f32>(batch, head, query, depth);
inline constexpr auto v_row = input<"v_row", f32>(batch, head, query, value_depth);
inline constexpr auto decay = input<"decay", f32>(batch, head, query);
inline constexpr auto decays = input<"decays", f32>(batch, head, query, depth);
inline constexpr auto gated_delta = q_row * recurrence([](auto S) {
                                        const auto kept = decay(b, h, q_idx) * S;
                                        return kept + t(k_row) * (as_output(v_row(b, h, q_idx, d_idx)) - k_row * kept);
                                    });
inline constexpr auto channels_forget =
    q_row * recurrence([](auto S) { return decays(b, h, q_idx, d_idx) * S + t(k_row) * v_row; });

inline constexpr auto apart = softmax(cores::scores) * v + softmax(cores::other_scores) * cores::v2;

}  // namespace planned
