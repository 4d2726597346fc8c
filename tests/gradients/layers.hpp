#pragma once
#include "../../examples/layers/fused_heads.hpp"

/// Layers with projections, and their gradients, <name>_gradient.
namespace gradients_of_layers {

using namespace attune::dsl;

/// An example's: one projection with a bias makes q, k and v, and the heads are merged.
inline constexpr auto layer =
    outputs(out = layers::fused_heads::plain, lse = log_sum_exp(layers::fused_heads::scores));  // out: (b, l, e)
inline constexpr auto layer_gradient = gradient(layer);

/// One projection that all heads of the keys share, and an output that nothing merges.
inline constexpr auto in = bound_index<"in">;
inline constexpr auto shared_weight = input<"shared_weight", f32>(axis<"of_a_head">, axis<"of_a_head">);
inline constexpr auto shared_scores =
    q * t(keys(sum(in, depth, k(b, h, kv_idx, in) * shared_weight(d_idx, in)))) * rsqrt(depth);
inline constexpr auto shared = outputs(out = softmax(shared_scores) * v, lse = log_sum_exp(shared_scores));
inline constexpr auto shared_gradient = gradient(shared);

/// A residual connection around plain attention.
inline constexpr auto skipped = input<"skipped", f32>(batch, query, axis<"merged">);
inline constexpr auto attended = softmax(mask(q * t(k) * rsqrt(depth), causal)) * v;
inline constexpr auto residual_layer =
    outputs(out = residual(skipped, merge_heads(attended)), output<"attended"> = attended,
            lse = log_sum_exp(mask(q * t(k) * rsqrt(depth), causal)));
inline constexpr auto residual_gradient = gradient(residual_layer);

}  // namespace gradients_of_layers
