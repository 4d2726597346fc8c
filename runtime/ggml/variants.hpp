#pragma once
#include <attune/dsl.hpp>

/// What GGML_OP_FLASH_ATTN_EXT computes, as formulas: one where each query sees keys from a first to a last one, and
/// one that reads the mask; each with and without a cap of the scores.
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
inline constexpr auto scores = q * t(k) * scale;
inline constexpr auto capped_scores = softcap(cap, scores);

inline constexpr auto attention = softmax(mask(scores, between), sink(h)) * v;
inline constexpr auto capped = softmax(mask(capped_scores, between), sink(h)) * v;
inline constexpr auto masked = softmax(mask(scores + bias, between), sink(h)) * v;
inline constexpr auto masked_capped = softmax(mask(capped_scores + bias, between), sink(h)) * v;

}  // namespace attune::ggml
