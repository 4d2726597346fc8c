#pragma once
#include <attune/dsl.hpp>
#include <attune/dsl/layers.hpp>

/// What the layers share: a sequence, and projections by the names of their tensors.
namespace layers {
using namespace attune::dsl;

inline constexpr auto x = input<"x", f32>(batch, position, axis<"model">);  // (b, l, e)
inline constexpr auto width = extent<2>(x);
inline constexpr auto number_of_heads = scalar<"heads", i32>;

template <name Label, attune::element_type Element = f32>
inline constexpr auto weight = input<Label, Element>(axis<"out">, axis<"in">);  // (out, in), as PyTorch stores it
template <name Label> inline constexpr auto bias = input<Label, f32>(axis<"out">);

inline constexpr auto pair_mask = input<"mask", u8>(batch, query, key);               // (b, lq, lk)
inline constexpr auto shared_pair_mask = input<"mask", u8>(batch, head, query, key);  // (b or 1, 1, lq, lk)
inline constexpr auto padding_mask = input<"mask", u8>(batch, key);                   // (b, lk)
inline constexpr auto dropped_pairs = input<"dropout_keep", u8>(batch, query, key);   // (b, lq, lk): what dropout kept
inline constexpr auto dropped = input<"dropout_keep", u8>(batch, head, query, key);
inline constexpr auto p = scalar<"p", f32>;

/// Dropout with a mask that somebody else drew.
constexpr auto kept(auto weights, auto keep) { return where(keep != 0, weights, 0) / (1.0 - p); }

}  // namespace layers
