#pragma once
#include "../../examples/layers/fused_heads.hpp"

#include <attune/dsl/embeddings.hpp>

/// Layers with projections, and their gradients, <name>_gradient.
namespace gradients_of_layers {

using namespace attune::dsl;

/// An example's: one projection with a bias makes q, k and v, and the heads are merged.
inline constexpr auto layer =
    outputs(out = layers::fused_heads::plain, lse = log_sum_exp(layers::fused_heads::scores));  // out: (b, l, e)
inline constexpr auto layer_gradient = gradient(layer);

/// The same layer, causal, with its output projection and the sequence that it is added to. `attended` is what the
/// projection reads.
inline constexpr auto out_weight = input<"out_weight", f32>(axis<"model">, axis<"merged">);
inline constexpr auto out_bias = input<"out_bias", f32>(axis<"model">);
inline constexpr auto causal_scores = mask(layers::fused_heads::scores, causal);
inline constexpr auto causal_heads = softmax(causal_scores) * layers::fused_heads::v;
inline constexpr auto whole =
    outputs(out = residual(layers::x, linear(merge_heads(causal_heads), out_weight, out_bias)),
            output<"attended"> = causal_heads, lse = log_sum_exp(causal_scores));
inline constexpr auto whole_gradient = gradient(whole);

/// Functions of what is projected: rotated queries, with a gain for each channel, and keys; values x sigmoid(x).
inline constexpr auto cosines = input<"cosines", f32>(position, axis<"pair">);
inline constexpr auto sines = input<"sines", f32>(position, axis<"pair">);
inline constexpr auto gain = input<"gain", f32>(depth);
inline constexpr auto rotated_queries = rotary_half(
    channels(q_idx, [](auto d) { return layers::fused_heads::q.at(q_idx, d, depth) * gain(d); }), cosines, sines);
inline constexpr auto rotated_keys =
    rotary_half(channels(kv_idx, [](auto d) { return layers::fused_heads::k.at(kv_idx, d, depth); }), cosines, sines);
inline constexpr auto of_head = layers::fused_heads::q.width / layers::number_of_heads;
inline constexpr auto rotated_scores =
    mask(queries(rotated_queries, extent<1>(layers::x), layers::number_of_heads, of_head) *
             t(keys(rotated_keys, extent<1>(layers::x), layers::number_of_heads, of_head)) * rsqrt(depth),
         causal);
inline constexpr auto bent_values = split_heads(
    apply(part<2, 3>(layers::fused_heads::qkv), [](auto e) { return e * sigmoid(e); }), layers::number_of_heads);
inline constexpr auto bent = outputs(out = softmax(rotated_scores) * bent_values, lse = log_sum_exp(rotated_scores));
inline constexpr auto bent_gradient = gradient(bent);

/// Norms of what is projected: of queries and of keys, which are then rotated.
inline constexpr auto turned_queries = rotary_half(rms_norm(layers::fused_heads::q, gain, 1e-6), cosines, sines);
inline constexpr auto turned_keys =
    rotary_half(rms_norm(layers::fused_heads::k, input<"key_gain", f32>(depth), 1e-6), cosines, sines);
inline constexpr auto normed_scores = mask(turned_queries * t(turned_keys) * rsqrt(depth), causal);
inline constexpr auto normed =
    outputs(out = softmax(normed_scores) * layers::fused_heads::v, lse = log_sum_exp(normed_scores));
inline constexpr auto normed_gradient = gradient(normed);

/// Norms of q and k themselves, the keys' by a gain for each query head.
inline constexpr auto gain_of_head = input<"gain_of_head", f32>(head, depth);
inline constexpr auto normed_tensor_scores =
    queries(rms_norm(q, gain, 1e-6)) *
    t(keys(rms_norm(k, [](auto d) { return gain_of_head(h, d); }, 1e-6))) * rsqrt(depth);
inline constexpr auto normed_tensors =
    outputs(out = softmax(normed_tensor_scores) * v, lse = log_sum_exp(normed_tensor_scores));
inline constexpr auto normed_tensors_gradient = gradient(normed_tensors);

/// One projection that all heads of the keys share, and an output that nothing merges.
inline constexpr auto in = bound_index<"in">;
inline constexpr auto shared_weight = input<"shared_weight", f32>(axis<"of_a_head">, axis<"of_a_head">);
inline constexpr auto shared_scores =
    q * t(keys(sum(in, depth, k(b, h, kv_idx, in) * shared_weight(d_idx, in)))) * rsqrt(depth);
inline constexpr auto shared = outputs(out = softmax(shared_scores) * v, lse = log_sum_exp(shared_scores));
inline constexpr auto shared_gradient = gradient(shared);

/// A function of one, heads in groups, and a function of what the output projection leaves.
inline constexpr auto grouped_scores =
    mask(q * t(keys(tanh(sum(in, depth, k(b, h, kv_idx, in) * shared_weight(d_idx, in))))) * rsqrt(depth),
         q_idx + 1 >= kv_idx);
inline constexpr auto grouped_heads = softmax(grouped_scores) * v;
inline constexpr auto grouped = outputs(out = gelu(linear(merge_heads(grouped_heads), out_weight)),
                                        output<"attended"> = grouped_heads, lse = log_sum_exp(grouped_scores));
inline constexpr auto grouped_gradient = gradient(grouped);

/// A norm of one, which takes the mean away first.
inline constexpr auto of_mean = bound_index<"m">;
inline constexpr auto of_variance = bound_index<"s">;
inline constexpr auto key_at(auto d) { return sum(in, depth, k(b, h, kv_idx, in) * shared_weight(d, in)); }
inline constexpr auto mean = sum(of_mean, depth, key_at(of_mean)) / depth;
inline constexpr auto off_mean = key_at(of_variance) - mean;
inline constexpr auto variance = sum(of_variance, depth, off_mean* off_mean) / depth;
inline constexpr auto centred_scores = q * t(keys((key_at(d_idx) - mean) * rsqrt(variance + 1e-5))) * rsqrt(depth);
inline constexpr auto centred = outputs(out = softmax(centred_scores) * v, lse = log_sum_exp(centred_scores));
inline constexpr auto centred_gradient = gradient(centred);

/// A residual connection around plain attention.
inline constexpr auto skipped = input<"skipped", f32>(batch, query, axis<"merged">);
inline constexpr auto attended = softmax(mask(q * t(k) * rsqrt(depth), causal)) * v;
inline constexpr auto residual_layer =
    outputs(out = residual(skipped, merge_heads(attended)), output<"attended"> = attended,
            lse = log_sum_exp(mask(q * t(k) * rsqrt(depth), causal)));
inline constexpr auto residual_gradient = gradient(residual_layer);

}  // namespace gradients_of_layers
