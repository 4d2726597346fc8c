#pragma once
#include <attune/dsl.hpp>
#include <attune/dsl/layers.hpp>

/// Variants and their shards, of which kernels are made.
namespace sharded {
using namespace attune::dsl;

template <class Scores> constexpr auto attention(Scores s) {
    return outputs(out = softmax(s) * v, lse = log_sum_exp(s));
}
inline constexpr auto scores = q * t(k) * rsqrt(depth);
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto sinks = input<"sinks", f32>(head);
inline constexpr auto document = input<"document", i32>(position);
inline constexpr auto by_key = input<"by_key", f32>(batch, key);
inline constexpr auto bias = input<"bias", f32>(query, key);

/// A window that ends at the last key in use, slopes by distance, and a sink.
inline constexpr auto windowed_scores =
    mask(scores + slopes(h) * (kv_idx - q_idx) + by_key(b, kv_idx), bottom_right(window(40, 0)));
inline constexpr auto windowed =
    outputs(out = softmax(windowed_scores, sinks(h)) * v, lse = log_sum_exp(windowed_scores, sinks(h)));
inline constexpr auto windowed_shard = shard(windowed);

/// Documents by a table of positions, a bias of pairs, and the statistics of a row.
inline constexpr auto document_scores =
    mask(scores + bias(q_idx, kv_idx), document(q_idx) == document(kv_idx) && causal);
inline constexpr auto documents = outputs(out = softmax(document_scores) * v, lse = log_sum_exp(document_scores),
                                          output<"top"> = row_maximum(document_scores));
inline constexpr auto documents_shard = shard(documents);

/// Sums that are not normalised, of weights that are dropped by a seed.
inline constexpr auto sigmoids = unnormalized(mask(sigmoid(scores), causal));
inline constexpr auto kept = where(keep(0.25, 4711), sigmoids, 0.0);
inline constexpr auto sigmoid_attention = outputs(out = kept * v, output<"sum"> = row_sum(kept));
inline constexpr auto sigmoid_shard = shard(sigmoid_attention);

/// A table read at an index that a tensor of each rank's own keys holds.
inline constexpr auto gains = input<"gains", f32>(axis<"row">);
inline constexpr auto bucket = input<"bucket", i32>(batch, key);
inline constexpr auto bucketed = attention(scores + gains(bucket(b, kv_idx)));
inline constexpr auto bucketed_shard = shard(bucketed);

inline constexpr auto windowed_gradient = gradient(windowed, of(out, lse));
inline constexpr auto windowed_gradient_shard = shard(windowed_gradient);
inline constexpr auto documents_gradient = gradient(documents);
inline constexpr auto documents_gradient_shard = shard(documents_gradient);
inline constexpr auto sigmoid_gradient = gradient(sigmoid_attention, of(out, output<"sum">));
inline constexpr auto sigmoid_gradient_shard = shard(sigmoid_gradient);

}  // namespace sharded
