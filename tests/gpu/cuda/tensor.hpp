#pragma once
#include <attune/dsl.hpp>
#include <attune/dsl/layers.hpp>

/// Prefill and decode by tensor cores: what a formula makes of a pair stays an expression, whatever it is.
namespace tensor {

using namespace attune::dsl;

inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto sinks = input<"sinks", f32>(head);
inline constexpr auto documents = input<"documents", i32>(batch, key);
inline constexpr auto bias = input<"bias", f32>(head, query, key);
inline constexpr auto scores = q * t(k) * rsqrt(depth);

inline constexpr auto full = softmax(scores) * v;
/// Masked by position, in blocks that are skipped, visited and masked, and visited without a mask.
inline constexpr auto biased = mask(scores + slopes(h) * -(q_idx - kv_idx), causal_bottom_right);
inline constexpr auto last = outputs(out = softmax(biased) * v, lse = log_sum_exp(biased));
/// The same without a row beside it: weights may be relative to less than the maximum.
inline constexpr auto rising = softmax(biased) * v;
/// Keys at both ends, scores that are no longer linear, a sink.
inline constexpr auto at_ends = mask(softcap(20, scores), bottom_right(window(99, 0)) || !(kv_idx > 3));
inline constexpr auto ends = softmax(at_ends, sinks(h)) * v;
/// Tables of a key and of a pair, of which nothing is known before; weights that are not softmax's own.
inline constexpr auto of_documents = mask(scores + bias(h, q_idx, kv_idx), documents(b, kv_idx) < 2 && kv_idx <= q_idx);
inline constexpr auto dropped = where((q_idx * 7 + kv_idx * 3) % 5 != 0, softmax(of_documents) * 1.25, 0) * v;
/// Hidden by a score of -infinity, without a mask.
inline constexpr auto chosen = softmax(where(kv_idx <= q_idx, scores, -inf)) * v;
/// Every second head sees all keys: rows of one tile see different ones.
inline constexpr auto of_heads = softmax(mask(scores, h % 2 == 0 || causal_bottom_right)) * v;
/// Capped by a number of the call, of which 0 is none.
inline constexpr auto capped = softmax(softcap(scalar<"cap", f32>, scores)) * v;
/// Keys and values in pages of 16, of which a table says where they lie.
inline constexpr auto block_table = input<"block_table", i32>(batch, axis<"block">);
inline constexpr auto k_pages = input<"k_pages", bf16>(axis<"page">, key_head, axis<"token">, depth);
inline constexpr auto v_pages = input<"v_pages", bf16>(axis<"page">, key_head, axis<"token">, value_depth);
inline constexpr auto length = extent<1>(block_table) * 16;
inline constexpr auto page = block_table(b, kv_idx / 16);
inline constexpr auto of_pages = q * t(keys(k_pages(page, h, kv_idx % 16, d_idx), length)) * rsqrt(depth);
inline constexpr auto paged =
    softmax(mask(of_pages, causal_bottom_right)) * values(v_pages(page, h, kv_idx % 16, d_idx), length);
/// New keys and values, stored by the call that reads them.
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto v_new = input<"v_new", f32>(batch, key_head, query, value_depth);
inline constexpr auto stored = outputs(store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx)),
                                       store(v(b, h, new_kv_idx, d_idx), v_new(b, h, q_idx, d_idx)),
                                       out = softmax(mask(scores, causal_bottom_right)) * v);

/// Queries and keys that are rotated, and codes with a scale a key: computed as rows are read, and rounded to bf16.
inline constexpr auto cosines = input<"cosines", f32>(position, axis<"pair">);
inline constexpr auto sines = input<"sines", f32>(position, axis<"pair">);
inline constexpr auto turned = queries(rotary_half(q, cosines, sines, q_idx + max(key_length - query_length, 0)));
inline constexpr auto rotated =
    softmax(mask(turned * t(keys(rotary_half(k, cosines, sines))) * rsqrt(depth), causal_bottom_right)) * v;
inline constexpr auto k_codes = input<"k_codes", i8>(batch, key_head, key, depth);
inline constexpr auto v_codes = input<"v_codes", u8>(batch, key_head, key, value_depth);
inline constexpr auto k_scale = input<"k_scale", f32>(batch, key_head, key);
inline constexpr auto v_scale = input<"v_scale", f32>(batch, key_head, key);
inline constexpr auto of_codes =
    softmax(mask(q * t(keys(k_codes(b, h, kv_idx, d_idx) * k_scale(b, h, kv_idx))) * rsqrt(depth),
                 bottom_right(window(99, 0)))) *
    values((v_codes(b, h, kv_idx, d_idx) - 128) * v_scale(b, h, kv_idx));
/// Queries that are rounded to codes as well: scores are sums of integers.
inline constexpr auto rounded =
    softmax(
        mask(queries(quantized<i8>(q)) * t(keys(k_codes(b, h, kv_idx, d_idx) * k_scale(b, h, kv_idx))) * rsqrt(depth),
             causal_bottom_right)) *
    values((v_codes(b, h, kv_idx, d_idx) - 128) * v_scale(b, h, kv_idx));

}  // namespace tensor
