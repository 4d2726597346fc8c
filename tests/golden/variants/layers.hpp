#pragma once
#include "../../../examples/layers/averaged_weights.hpp"
#include "../../../examples/layers/fused.hpp"
#include "../../../examples/layers/fused_heads.hpp"
#include "../../../examples/layers/fused_masked.hpp"
#include "../../../examples/layers/fused_projected.hpp"
#include "../../../examples/layers/fused_scaled_after.hpp"
#include "../../../examples/layers/look_ahead.hpp"
#include "../../../examples/layers/multi_head.hpp"
#include "../../../examples/layers/multi_head_self.hpp"
#include "../../../examples/layers/per_head_projection.hpp"
#include "../../../examples/layers/scaled_dot_product.hpp"
#include "../../../examples/layers/self_attention.hpp"
#include "../../../examples/layers/single_head.hpp"
#include "../../../examples/layers/single_head_masked.hpp"

/// The layers of tutorials, by the stems of their files.
namespace golden {
inline constexpr auto words = layers::multi_head_self::of_words<attune::element_type::f32>;
inline constexpr auto words_bf16 = layers::multi_head_self::of_words<attune::element_type::bf16>;
inline constexpr auto second_sequence = layers::multi_head_self::second_sequence;
}  // namespace golden

/// The same layers, compiled for the depths of the tutorials' demonstrations.
namespace toy {
inline constexpr auto single = layers::single_head::layer;
inline constexpr auto by_other_names = layers::single_head_masked::plain;
inline constexpr auto masked_by_other_names = layers::single_head_masked::masked;
inline constexpr auto fused = layers::fused::plain;
inline constexpr auto masked = layers::fused::masked;
inline constexpr auto scaled_after = layers::fused::scaled_after;
inline constexpr auto masked_projected = layers::fused::masked_projected;
inline constexpr auto heads = layers::fused_heads::masked;
}  // namespace toy
