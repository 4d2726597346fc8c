#pragma once
#include <attune/dsl.hpp>

/// Calls that store their new keys and values on a device, and read them there.
namespace stored {

using namespace attune::dsl;

inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto v_new = input<"v_new", f32>(batch, key_head, query, value_depth);
inline constexpr auto masked = mask(q * t(k) * rsqrt(depth), causal_bottom_right);
/// Caches of the call's own types.
inline constexpr auto step = outputs(store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx)),
                                     store(v(b, h, new_kv_idx, d_idx), v_new(b, h, q_idx, d_idx)),
                                     out = softmax(masked) * v, lse = log_sum_exp(masked));

/// Keys normalised and rotated, then rounded to bytes with a scale each, in pages behind a table; two values a byte.
inline constexpr auto n = bound_index<"n">;
inline constexpr auto gain = input<"gain", f32>(depth);
inline constexpr auto cosines = input<"cosines", f32>(position, axis<"pair">);
inline constexpr auto sines = input<"sines", f32>(position, axis<"pair">);
inline constexpr auto page_of = input<"page_of", i32>(batch, axis<"block">);
inline constexpr auto k8 = input<"k8", i8>(axis<"page">, key_head, axis<"token">, depth);
inline constexpr auto k_scale = input<"k_scale", f32>(axis<"page">, key_head, axis<"token">);
inline constexpr auto v4 = input<"v4", u8>(axis<"page">, key_head, axis<"token">, axis<"byte">);
inline constexpr auto key_length_of_pages = extent<1>(page_of) * 16;
template <class X, class Place> constexpr auto turned(X x, Place place) {
    return rotary_half(rms_norm(x, gain, 1e-6), cosines, sines, place);
}
inline constexpr auto new_key = turned(k_new, new_kv_idx);
inline constexpr auto top = max(largest(n, depth, abs(new_key(n))), 1e-20);
template <class Channel> constexpr auto nibble(Channel d) {
    return clamp(as_integer(round(v_new(b, h, q_idx, d) * 2)), -8, 7) + 8;
}
inline constexpr auto new_page = page_of(b, new_kv_idx / 16);
inline constexpr auto page = page_of(b, kv_idx / 16);
inline constexpr auto low = d_idx < value_depth / 2;
inline constexpr auto codes = v4(page, h, kv_idx % 16, where(low, d_idx, d_idx - value_depth / 2));
inline constexpr auto paged = outputs(
    store(k8(new_page, h, new_kv_idx % 16, d_idx), clamp(as_integer(round(new_key(d_idx) * (127 / top))), -127, 127)),
    store(k_scale(new_page, h, new_kv_idx % 16), top / 127),
    store(v4(new_page, h, new_kv_idx % 16, d_idx), nibble(d_idx + 0) | (nibble(d_idx + value_depth / 2) << 4)),
    out =
        softmax(mask(queries(turned(q, new_kv_idx)) *
                         t(keys(k8(page, h, kv_idx % 16, d_idx) * k_scale(page, h, kv_idx % 16), key_length_of_pages)),
                     causal_bottom_right)) *
        values(as_real(((codes >> where(low, 0, 4)) & 15) - 8) * 0.5, key_length_of_pages));

/// Keys as the sum of two codes in one tensor, in slots that a list names; a new one without a slot is left out.
inline constexpr auto slot = input<"slot", i32>(batch, key);
inline constexpr auto new_slot = input<"new_slot", i32>(batch, query);
inline constexpr auto both = input<"both", i8>(axis<"part">, batch, key_head, axis<"place">, depth);
template <class X> constexpr auto code(X x) { return clamp(as_integer(round(x * 32)), -128, 127); }
constexpr auto read_back(auto part) { return as_real(both(part, b, h, slot(b, kv_idx), d_idx)) * (1.0 / 32); }
inline constexpr auto placed = outputs(
    store(both(0, b, h, new_slot(b, q_idx), d_idx), code(k_new(b, h, q_idx, d_idx)), new_slot(b, q_idx) >= 0),
    store(both(1, b, h, new_slot(b, q_idx), d_idx), code(k_new(b, h, q_idx, d_idx) * -2), new_slot(b, q_idx) >= 0),
    out = softmax(q * t(keys(read_back(0) + read_back(1), extent<1>(slot))) * rsqrt(depth)) * v);

}  // namespace stored
