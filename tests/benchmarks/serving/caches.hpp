#pragma once
#include <attune/dsl.hpp>

/// The caches that engines keep, each as a formula over what lies in memory.
namespace bench::caches {
using namespace attune::dsl;

/// Contiguous, of the kernel's element type: f32, bf16 or f16.
inline constexpr auto contiguous = softmax(q * t(k) * rsqrt(depth)) * v;

/// Bytes, with a scale for each head and token; 128 stands for zero.
namespace bytes {
inline constexpr auto k8 = input<"k8", u8>(batch, key_head, key, depth);
inline constexpr auto v8 = input<"v8", u8>(batch, key_head, key, value_depth);
inline constexpr auto k_scale = input<"k_scale", f32>(batch, key_head, key);
inline constexpr auto v_scale = input<"v_scale", f32>(batch, key_head, key);
inline constexpr auto cached_keys = keys(as_real(k8(b, h, kv_idx, d_idx) - 128) * k_scale(b, h, kv_idx));
inline constexpr auto cached_values = values(as_real(v8(b, h, kv_idx, d_idx) - 128) * v_scale(b, h, kv_idx));
inline constexpr auto attention = softmax(q * t(cached_keys) * rsqrt(depth)) * cached_values;
}  // namespace bytes

/// Elements of eight bits that are numbers as they stand, with a scale for each head and token of the keys and values.
template <auto type> struct narrow {
    static constexpr auto k8 = input<"k8", type>(batch, key_head, key, depth);
    static constexpr auto v8 = input<"v8", type>(batch, key_head, key, value_depth);
    static constexpr auto k_scale = input<"k_scale", f32>(batch, key_head, key);
    static constexpr auto v_scale = input<"v_scale", f32>(batch, key_head, key);
    static constexpr auto attention =
        softmax(q * t(keys(as_real(k8(b, h, kv_idx, d_idx)) * k_scale(b, h, kv_idx))) * rsqrt(depth)) *
        values(as_real(v8(b, h, kv_idx, d_idx)) * v_scale(b, h, kv_idx));
    /// Queries in codes of eight bits, too, and weights in eight or sixteen.
    static constexpr auto of_codes = softmax(
        queries(quantized<i8>(q)) * t(keys(as_real(k8(b, h, kv_idx, d_idx)) * k_scale(b, h, kv_idx))) * rsqrt(depth));
    static constexpr auto cached_values = values(as_real(v8(b, h, kv_idx, d_idx)) * v_scale(b, h, kv_idx));
};
inline constexpr auto of_i8_and_codes = narrow<i8>::of_codes * narrow<i8>::cached_values;
inline constexpr auto of_i8_and_two_digits = quantized<i16>(narrow<i8>::of_codes) * narrow<i8>::cached_values;
inline constexpr auto of_i8_and_one_digit = quantized<u8>(narrow<i8>::of_codes) * narrow<i8>::cached_values;
inline constexpr auto of_i8 = narrow<i8>::attention;
inline constexpr auto of_e4m3 = narrow<f8_e4m3>::attention;
inline constexpr auto of_e5m2 = narrow<f8_e5m2>::attention;

/// Four bits an element, two in a byte: those of the first half of a row below those of the second; a scale for each
/// group of 32 channels.
namespace nibbles {
inline constexpr auto k4 = input<"k4", u8>(batch, key_head, key, axis<"byte">);
inline constexpr auto v4 = input<"v4", u8>(batch, key_head, key, axis<"byte">);
inline constexpr auto k_scale = input<"k_scale", f32>(batch, key_head, key, axis<"group">);
inline constexpr auto v_scale = input<"v_scale", f32>(batch, key_head, key, axis<"group">);

template <class Codes> constexpr auto element(const Codes& codes) {
    constexpr auto low = d_idx < depth / 2;
    return ((codes(b, h, kv_idx, where(low, d_idx, d_idx - depth / 2)) >> where(low, 0, 4)) & 15) - 8;
}
inline constexpr auto attention =
    softmax(q * t(keys(as_real(element(k4)) * k_scale(b, h, kv_idx, d_idx / 32))) * rsqrt(depth)) *
    values(as_real(element(v4)) * v_scale(b, h, kv_idx, d_idx / 32));

/// The same with a scale for each token alone, and with queries and weights in codes, too.
inline constexpr auto k_step = input<"k_scale", f32>(batch, key_head, key);
inline constexpr auto v_step = input<"v_scale", f32>(batch, key_head, key);
inline constexpr auto keys_of_tokens = keys(as_real(element(k4)) * k_step(b, h, kv_idx));
inline constexpr auto values_of_tokens = values(as_real(element(v4)) * v_step(b, h, kv_idx));
inline constexpr auto of_tokens = softmax(q * t(keys_of_tokens) * rsqrt(depth)) * values_of_tokens;
inline constexpr auto of_codes =
    quantized<u8>(softmax(queries(quantized<i8>(q)) * t(keys_of_tokens) * rsqrt(depth))) * values_of_tokens;
}  // namespace nibbles

/// Blocks of 32 channels, whose codes lie beside their scale; `apart` has the same codes in a tensor of their own.
template <block_layout layout> struct in_blocks {
    static constexpr auto k_cache = input<"k_cache", blocks<layout>>(batch, key_head, key, depth);
    static constexpr auto v_cache = input<"v_cache", blocks<layout>>(batch, key_head, key, value_depth);
    static constexpr auto attention = softmax(q * t(k_cache) * rsqrt(depth)) * v_cache;
    static constexpr auto of_codes =
        quantized<u8>(softmax(queries(quantized<i8>(q)) * t(k_cache) * rsqrt(depth))) * v_cache;
};
inline constexpr auto in_q8_0 = in_blocks<q8_0>::attention;
inline constexpr auto in_q4_0 = in_blocks<q4_0>::attention;
inline constexpr auto in_q4_1 = in_blocks<q4_1>::attention;
inline constexpr auto in_mxfp4 = in_blocks<mxfp4>::attention;
inline constexpr auto in_nvfp4 = in_blocks<nvfp4>::attention;
inline constexpr auto in_q8_0_of_codes = in_blocks<q8_0>::of_codes;
inline constexpr auto in_q4_0_of_codes = in_blocks<q4_0>::of_codes;

namespace apart {
inline constexpr auto k_scale = input<"k_scale", f16>(batch, key_head, key, axis<"group">);
inline constexpr auto v_scale = input<"v_scale", f16>(batch, key_head, key, axis<"group">);
template <class K, class V> constexpr auto attention_of(K k_code, V v_code) {
    return softmax(q * t(keys(as_real(k_code) * k_scale(b, h, kv_idx, d_idx / 32))) * rsqrt(depth)) *
           values(as_real(v_code) * v_scale(b, h, kv_idx, d_idx / 32));
}
inline constexpr auto of_q8_0 = attention_of(narrow<i8>::k8(b, h, kv_idx, d_idx), narrow<i8>::v8(b, h, kv_idx, d_idx));

inline constexpr auto k4 = input<"k4", u8>(batch, key_head, key, axis<"group">, axis<"byte">);
inline constexpr auto v4 = input<"v4", u8>(batch, key_head, key, axis<"group">, axis<"byte">);
template <class Codes> constexpr auto element(const Codes& codes) {
    return ((codes(b, h, kv_idx, d_idx / 32, d_idx % 16) >> d_idx / 16 % 2 * 4) & 15) - 8;
}
inline constexpr auto of_q4_0 = attention_of(element(k4), element(v4));
}  // namespace apart

/// The last 128 keys, and a number for each head in the denominator, as in gpt-oss.
namespace sliding {
inline constexpr auto sinks = input<"sinks", f32>(head);
inline constexpr auto attention = softmax(mask(q * t(k) * rsqrt(depth), bottom_right(window(127, 0))), sinks(h)) * v;
/// As in StreamingLLM: the first keys beside the last ones.
inline constexpr auto first_and_last =
    softmax(mask(q * t(k) * rsqrt(depth), bottom_right(window(63, 0)) || kv_idx < 4)) * v;
}  // namespace sliding

/// Pages of a pool, found through a block table: [page, head, token, depth].
namespace paged {
inline constexpr auto block_table = input<"block_table", i32>(batch, axis<"block">);

template <int tokens, class Pages> constexpr auto element(const Pages& pages) {
    return pages(block_table(b, kv_idx / tokens), h, kv_idx % tokens, d_idx);
}
template <auto type, int tokens> struct pool {
    static constexpr auto k_pages = input<"k_pages", type>(axis<"page">, key_head, axis<"token">, depth);
    static constexpr auto v_pages = input<"v_pages", type>(axis<"page">, key_head, axis<"token">, value_depth);
    static constexpr auto length = extent<1>(block_table) * tokens;
    static constexpr auto attention = softmax(q * t(keys(element<tokens>(k_pages), length)) * rsqrt(depth)) *
                                      values(element<tokens>(v_pages), length);
};
inline constexpr auto f32_1 = pool<f32, 1>::attention;
inline constexpr auto bf16_1 = pool<bf16, 1>::attention;
inline constexpr auto f32_16 = pool<f32, 16>::attention;
inline constexpr auto f32_64 = pool<f32, 64>::attention;
inline constexpr auto bf16_16 = pool<bf16, 16>::attention;
inline constexpr auto bf16_64 = pool<bf16, 64>::attention;

/// The same for chunks of a prompt, too: queries stand at the end of the keys in use.
template <auto type, int tokens> struct causal_pool {
    using pages = pool<type, tokens>;
    static constexpr auto scores = q * t(keys(element<tokens>(pages::k_pages), pages::length)) * rsqrt(depth);
    static constexpr auto attention =
        softmax(mask(scores, causal_bottom_right)) * values(element<tokens>(pages::v_pages), pages::length);
};
inline constexpr auto causal_f32_64 = causal_pool<f32, 64>::attention;
inline constexpr auto causal_bf16_64 = causal_pool<bf16, 64>::attention;

/// Bytes in pages, with a scale for each token of a page and head beside it.
template <int tokens> struct pool_of_bytes {
    static constexpr auto k_pages = input<"k_pages", u8>(axis<"page">, key_head, axis<"token">, depth);
    static constexpr auto v_pages = input<"v_pages", u8>(axis<"page">, key_head, axis<"token">, value_depth);
    static constexpr auto k_scale = input<"k_scale", f32>(axis<"page">, key_head, axis<"token">);
    static constexpr auto v_scale = input<"v_scale", f32>(axis<"page">, key_head, axis<"token">);
    static constexpr auto length = extent<1>(block_table) * tokens;
    static constexpr auto page = block_table(b, kv_idx / tokens);
    static constexpr auto cached_keys =
        keys(as_real(k_pages(page, h, kv_idx % tokens, d_idx) - 128) * k_scale(page, h, kv_idx % tokens), length);
    static constexpr auto cached_values =
        values(as_real(v_pages(page, h, kv_idx % tokens, d_idx) - 128) * v_scale(page, h, kv_idx % tokens), length);
    static constexpr auto attention = softmax(q * t(cached_keys) * rsqrt(depth)) * cached_values;
};
inline constexpr auto u8_16 = pool_of_bytes<16>::attention;
inline constexpr auto u8_64 = pool_of_bytes<64>::attention;
}  // namespace paged

/// What sequences share: its state once for the queries of all, which are those of one call; then each sequence's own
/// keys, merged with it.
namespace prefix {
inline constexpr auto scores = q * t(k) * rsqrt(depth);
inline constexpr auto shared = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
inline constexpr auto prefix_out = input<"prefix_out", f32>(batch, head, query, value_depth);
inline constexpr auto prefix_lse = input<"prefix_lse", f32>(batch, head, query);
inline constexpr auto rest = merge(state(softmax(scores) * v, log_sum_exp(scores)),
                                   state(prefix_out(b, h, q_idx, d_idx), prefix_lse(b, h, q_idx)))
                                 .out;
}  // namespace prefix

/// Keys rotated at each read, which engines avoid and formulas allow.
namespace rotated {
inline constexpr auto cosine = input<"cosine", f32>(position, axis<"pair">);
inline constexpr auto sine = input<"sine", f32>(position, axis<"pair">);
inline constexpr auto positions = input<"positions", i32>(batch, query);
inline constexpr auto attention = softmax(q * t(keys(rotary_half(k, cosine, sine))) * rsqrt(depth)) * v;
}  // namespace rotated

/// A step of decode over each of three caches: attention alone, the same of queries that it normalises and rotates, and
/// that behind the stores of new keys and values, which are normalised and rotated as they are stored.
namespace step {
inline constexpr auto n = bound_index<"n">;
inline constexpr auto gain = input<"gain", f32>(depth);
inline constexpr auto cosine = input<"cosine", f32>(position, axis<"pair">);
inline constexpr auto sine = input<"sine", f32>(position, axis<"pair">);
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto v_new = input<"v_new", f32>(batch, key_head, query, value_depth);
inline constexpr auto new_key = rotary_half(rms_norm(k_new, gain, 1e-6), cosine, sine, new_kv_idx);
inline constexpr auto new_query = queries(rotary_half(rms_norm(q, gain, 1e-6), cosine, sine, new_kv_idx));

template <class Q, class K, class V> constexpr auto attention_of(Q query, K key, V value) {
    return softmax(mask(query * t(key) * rsqrt(depth), causal_bottom_right)) * value;
}
inline constexpr auto contiguous = attention_of(q, k, v);
inline constexpr auto contiguous_rotated = attention_of(new_query, k, v);
inline constexpr auto contiguous_step =
    outputs(store(k(b, h, new_kv_idx, d_idx), new_key(d_idx)),
            store(v(b, h, new_kv_idx, d_idx), v_new(b, h, q_idx, d_idx)), out = attention_of(new_query, k, v));

/// A number that makes a row's largest element 127.
template <class Row> constexpr auto scale_of(Row row) {
    return max(largest(n, depth, abs(row(n))), 1e-20) * (1.0 / 127);
}
template <class X> constexpr auto rounded(X x) { return clamp(as_integer(round(x)), -127, 127); }
inline constexpr auto new_value = channels(q_idx, [](auto d) { return v_new(b, h, q_idx, d); });

using codes = narrow<i8>;
inline constexpr auto code_keys = keys(codes::k8(b, h, kv_idx, d_idx) * codes::k_scale(b, h, kv_idx));
inline constexpr auto code_values = values(codes::v8(b, h, kv_idx, d_idx) * codes::v_scale(b, h, kv_idx));
inline constexpr auto of_codes = attention_of(q, code_keys, code_values);
inline constexpr auto codes_rotated = attention_of(new_query, code_keys, code_values);
inline constexpr auto step_of_codes =
    outputs(store(codes::k_scale(b, h, new_kv_idx), scale_of(new_key)),
            store(codes::k8(b, h, new_kv_idx, d_idx), rounded(new_key(d_idx) / scale_of(new_key))),
            store(codes::v_scale(b, h, new_kv_idx), scale_of(new_value)),
            store(codes::v8(b, h, new_kv_idx, d_idx), rounded(new_value(d_idx) / scale_of(new_value))),
            out = attention_of(new_query, code_keys, code_values));

inline constexpr auto pool = paged::pool<bf16, 64>{};
inline constexpr auto page_keys = keys(paged::element<64>(pool.k_pages), pool.length);
inline constexpr auto page_values = values(paged::element<64>(pool.v_pages), pool.length);
template <class Pages> constexpr auto place(const Pages& pages) {
    return pages(paged::block_table(b, new_kv_idx / 64), h, new_kv_idx % 64, d_idx);
}
inline constexpr auto of_pages = attention_of(q, page_keys, page_values);
inline constexpr auto pages_rotated = attention_of(new_query, page_keys, page_values);
inline constexpr auto step_of_pages =
    outputs(store(place(pool.k_pages), new_key(d_idx)), store(place(pool.v_pages), v_new(b, h, q_idx, d_idx)),
            out = attention_of(new_query, page_keys, page_values));
}  // namespace step

/// A token's key and value side by side.
template <auto type> struct pairs {
    static constexpr auto kv = input<"kv", type>(batch, key_head, key, axis<"key_or_value">, depth);
    static constexpr auto attention =
        softmax(q * t(keys(kv(b, h, kv_idx, 0, d_idx))) * rsqrt(depth)) * values(kv(b, h, kv_idx, 1, d_idx));
};
inline constexpr auto pairs_f32 = pairs<f32>::attention;
inline constexpr auto pairs_bf16 = pairs<bf16>::attention;

/// Latents, as multi-head latent attention keeps them with its up-projections absorbed: a row is the key of every query
/// head, and its first channels are the value.
template <auto type> struct latents {
    static constexpr auto latent = input<"latent", type>(batch, key, depth);
    static constexpr auto attention =
        softmax(q * t(keys(latent(b, kv_idx, d_idx))) * rsqrt(depth)) * values(latent(b, kv_idx, d_idx));
};
inline constexpr auto latents_f32 = latents<f32>::attention;
inline constexpr auto latents_bf16 = latents<bf16>::attention;

}  // namespace bench::caches
