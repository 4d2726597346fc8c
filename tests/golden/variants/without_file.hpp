#pragma once
#include "common.hpp"

/// Entries of the catalogue that no golden file has: on devices the reference evaluator says what they make.
namespace without_file {

using namespace attune::dsl;
namespace catalogue = attune::catalogue;
using golden::masked;
using golden::scores;

inline constexpr auto causal_scores = mask(scores, causal);
inline constexpr auto from = input<"from", i32>(query);
inline constexpr auto to = input<"to", i32>(query);
inline constexpr auto packed = input<"packed", u8>(batch, query, axis<"byte">);
inline constexpr auto cu_q = input<"cu_q", i32>(axis<"sequence">);
inline constexpr auto cu_k = input<"cu_k", i32>(axis<"sequence">);
inline constexpr auto key_scale = input<"key_scale", f32>(key_head, depth);

inline constexpr auto key_range = masked(catalogue::key_range(from, to));
inline constexpr auto packed_mask = masked(catalogue::packed_mask(packed));
inline constexpr auto varlen = masked(catalogue::varlen(cu_q, cu_k, [](auto i, auto j) { return i >= j; }));
inline constexpr auto slopes = golden::attention(mask(
    catalogue::alibi(
        catalogue::alibi_two_sided(catalogue::alibi(scores, catalogue::alibi_slope_paper), catalogue::alibi_slope_gym),
        catalogue::alibi_slope_halving),
    causal));
inline constexpr auto attention_received = outputs(output<"received"> = catalogue::attention_received(causal_scores));
inline constexpr auto channel_scaled =
    outputs(out = softmax(mask(q * t(keys(catalogue::channel_scaled(k, key_scale))) * golden::scale, causal)) * v);
inline constexpr auto sigmoid_attention = outputs(out = catalogue::sigmoid_attention(scores));
inline constexpr auto normalised_by_sum = outputs(out = catalogue::normalised_by_sum(relu(scores)));
inline constexpr auto draft_tree = masked(catalogue::draft_tree(input<"seen", boolean>(query, axis<"draft">)));
inline constexpr auto with_plus_one = outputs(out = catalogue::with_plus_one(causal_scores));

}  // namespace without_file
