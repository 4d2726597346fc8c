#pragma once
#include <attune/dsl.hpp>

/// Variants that are timed over two ranks, and their shards.
namespace timed {
using namespace attune::dsl;

template <class Scores> constexpr auto attention(Scores s) {
    return outputs(out = softmax(s) * v, lse = log_sum_exp(s));
}
inline constexpr auto scores = q * t(k) * rsqrt(depth);
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto document = input<"document", i32>(position);

inline constexpr auto causal_attention = attention(mask(scores, causal));
inline constexpr auto alibi = attention(mask(scores + slopes(h) * (kv_idx - q_idx), causal));
inline constexpr auto documents = attention(mask(scores, document(q_idx) == document(kv_idx) && causal));
inline constexpr auto windowed = attention(mask(scores, window(1023, 0)));

inline constexpr auto causal_shard = shard(causal_attention);
inline constexpr auto alibi_shard = shard(alibi);
inline constexpr auto documents_shard = shard(documents);
inline constexpr auto windowed_shard = shard(windowed);

}  // namespace timed
