#pragma once
#include <attune/dsl.hpp>

/// The formulas that attune.transformers calls, for who compiles them ahead of time: attune_add_variant(my_kernels
/// SHARED HEADER <this file> GRAPHS attune::transformers::attention attune::transformers::capped_attention DTYPES f32
/// bf16 DEPTHS 64 128).
namespace attune::transformers {
using namespace attune::dsl;

inline constexpr auto scale = scalar<"scale", f32>;
inline constexpr auto cap = scalar<"cap", f32>;

/// A query sees the keys from its index plus `first` to its index plus `last`: causal masks, windows of either kind,
/// and queries at the end of a cache are numbers. Padding on the left ends at `start`, padding on the right begins at
/// kv_lengths.
inline constexpr auto first = scalar<"first", i32>;
inline constexpr auto last = scalar<"last", i32>;
inline constexpr auto start = input<"start", i32>(batch);
inline constexpr auto visible = kv_idx >= q_idx + first && kv_idx <= q_idx + last && kv_idx >= start(b);

inline constexpr auto scores = q * t(k) * scale;

inline constexpr auto attention = softmax(mask(scores, visible)) * v;

/// Scores are bounded by `cap` first, as in Gemma 2.
inline constexpr auto capped_attention = softmax(mask(softcap(cap, scores), visible)) * v;

}  // namespace attune::transformers
