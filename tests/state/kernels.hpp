#pragma once
#include "graphs.hpp"

/// The graphs of golden files that have kernels, by names that attune_add_variant takes.
namespace state_kernels {
using namespace state_graphs;

using own = rows<false, false, false>;
using shared_keys = rows<true, true, false>;    ///< heads of values share those of queries and keys
using shared_states = rows<false, true, true>;  ///< heads of queries share states

inline constexpr auto retention = retnet<false>::graph;
inline constexpr auto retention_on = retnet<true>::graph;
inline constexpr auto lightning = additive<own, decays::of_heads, false>::graph;
inline constexpr auto gla = additive<own, decays::of_channels, false>::graph;
inline constexpr auto gla_on = additive<own, decays::of_channels, true>::graph;
inline constexpr auto gla_shared = additive<shared_states, decays::of_channels, true>::graph;
inline constexpr auto linear_shared = additive<shared_states, decays::none, false>::graph;
inline constexpr auto delta_net = delta<own, decays::none, false>::graph;
inline constexpr auto delta_net_on = delta<own, decays::none, true>::graph;
inline constexpr auto gated = delta<own, decays::of_tokens, false>::graph;
inline constexpr auto gated_on = delta<own, decays::of_tokens, true>::graph;
inline constexpr auto gated_shared_on = delta<shared_keys, decays::of_tokens, true>::graph;
inline constexpr auto kda_on = delta<own, decays::of_channels, true>::graph;
inline constexpr auto gated_bf16 = delta<rows<false, false, false, bf16>, decays::of_tokens, true>::graph;
inline constexpr auto kda_f16 = delta<rows<false, false, false, f16>, decays::of_channels, true>::graph;
inline constexpr auto kda_shared_on = delta<shared_keys, decays::of_channels, true>::graph;
inline constexpr auto mamba2_on = mamba2<shared_keys, true>::graph;
inline constexpr auto rwkv7_on = rwkv7<true>::graph;
inline constexpr auto rwkv6_on = rwkv6::graph;

/// A first state that is a formula: a slot of a pool, or none for sequences that begin; and tables over channels.
inline constexpr auto slot = input<"slot", i32>(batch);
inline constexpr auto pool = input<"pool", f32>(axis<"slot">, head, depth, value_depth);
inline constexpr auto tilt = input<"tilt", f32>(axis<"pair">);
inline constexpr auto ramp = input<"ramp", f32>(axis<"step">);
inline constexpr auto slope = input<"slope", f32>(axis<"channel">);
inline constexpr auto from_pool = recurrence(where(slot(b) < 0, 0.0, pool(max(slot(b), 0), h, d_idx, value_idx)) +
                                                 tilt(value_idx / 2) + ramp(d_idx + value_idx) + slope(value_idx),
                                             [](auto S) { return 0.5 * S + t(own::k) * own::v; });
inline constexpr auto pooled = outputs(out = own::q * from_pool, output<"state_out"> = last(from_pool));

/// Retention decays by query heads: several of them begin with the state of one key head.
inline constexpr auto first_of_key_heads = input<"first_of_key_heads", f32>(batch, key_head, depth, value_depth);
inline constexpr auto from_key_heads = catalogue::retention(first_of_key_heads, own::k, own::v);
inline constexpr auto retention_shared =
    outputs(out = own::q * from_key_heads, output<"state_out"> = last(from_key_heads));

/// Reads what drafts would give, and keeps no state.
inline constexpr auto gated_drafts = unit(own::q, 1e-6) * delta<own, decays::of_tokens, true>::states * rsqrt(depth);

/// Arguments and kernels of `gated_on`, and the first state is read elsewhere, too.
inline constexpr auto gated_states = delta<own, decays::of_tokens, true>::states;
inline constexpr auto gated_and_first =
    outputs(out = unit(own::q, 1e-6) * gated_states * rsqrt(depth) + as_output(own::state_in(b, h, 0, d_idx)),
            output<"state_out"> = last(gated_states));

}  // namespace state_kernels
