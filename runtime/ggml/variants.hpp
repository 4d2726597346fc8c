#pragma once
#include <attune/dsl.hpp>

/// What GGML_OP_FLASH_ATTN_EXT computes, as two formulas: `attention` where each query sees the keys from a first to a
/// last one, and `biased` for the rest, which reads the mask and caps the scores. Cap and mask are one formula, because
/// one more would add half of the library's bytes; a cap of 0 means none.
namespace attune::ggml {
using namespace attune::dsl;

inline constexpr auto scale = scalar<"scale", f32>;
inline constexpr auto cap = scalar<"cap", f32>;
inline constexpr auto first_key = input<"first_key", i32>(batch, query);  // that a query sees
inline constexpr auto end_key = input<"end_key", i32>(batch, query);      // behind the last one
inline constexpr auto sink = input<"sink", f32>(head);                    // -infinity: none
inline constexpr auto slope = input<"slope", f32>(head);                  // of ALiBi; 1 without it
inline constexpr auto mask_values = input<"mask_values", f16>(batch, query, key);

inline constexpr auto between = first_key(b, q_idx) <= kv_idx && kv_idx < end_key(b, q_idx);
inline constexpr auto bias = slope(h) * mask_values(b, q_idx, kv_idx);

template <class Scores, class Values> constexpr auto attention_of(Scores scores, Values values) {
    return softmax(mask(scores, between), sink(h)) * values;
}

inline constexpr auto scores = q * t(k) * scale;
inline constexpr auto attention = attention_of(scores, v);
inline constexpr auto biased = attention_of(softcap(cap, scores) + bias, v);

/// Caches of codes are read as they lie: blocks of an f16, the scale of 32 channels, and their codes behind it. The
/// scales are one tensor, the codes another in the same memory.
inline constexpr auto k_scales = input<"k_scales", f16>(batch, key_head, key, axis<"block">);
inline constexpr auto v_scales = input<"v_scales", f16>(batch, key_head, key, axis<"v_block">);
inline constexpr auto block = d_idx / 32;
inline constexpr auto channel = d_idx % 32;

/// A byte for each channel.
namespace q8_0 {
inline constexpr auto k_codes = input<"k_codes", i8>(batch, key_head, key, axis<"block">, axis<"code">);
inline constexpr auto v_codes = input<"v_codes", i8>(batch, key_head, key, axis<"v_block">, axis<"v_code">);
inline constexpr auto scores =
    q * t(keys(k_codes(b, h, kv_idx, block, channel) * k_scales(b, h, kv_idx, block))) * scale;
inline constexpr auto v = values(v_codes(b, h, kv_idx, block, channel) * v_scales(b, h, kv_idx, block));

inline constexpr auto attention = attention_of(scores, v);
inline constexpr auto biased = attention_of(softcap(cap, scores) + bias, v);
}  // namespace q8_0

/// Four bits for each channel, less 8: of the first half of a block the low ones of a byte, of the second the high
/// ones.
namespace q4_0 {
inline constexpr auto k_codes = input<"k_codes", u8>(batch, key_head, key, axis<"block">, axis<"code">);
inline constexpr auto v_codes = input<"v_codes", u8>(batch, key_head, key, axis<"v_block">, axis<"v_code">);
template <class Codes, class Scales> constexpr auto element(Codes codes, Scales scales) {
    const auto code = (codes(b, h, kv_idx, block, channel % 16) >> (channel / 16 * 4)) & 15;
    return as_real(code - 8) * scales(b, h, kv_idx, block);
}
inline constexpr auto scores = q * t(keys(element(k_codes, k_scales))) * scale;
inline constexpr auto v = values(element(v_codes, v_scales));

inline constexpr auto attention = attention_of(scores, v);
inline constexpr auto biased = attention_of(softcap(cap, scores) + bias, v);
}  // namespace q4_0

}  // namespace attune::ggml
