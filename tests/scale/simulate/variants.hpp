#pragma once
#include <attune/dsl.hpp>

/// The simulated variants: masks of the field over plain scores.
namespace simulated {
using namespace attune::dsl;

inline constexpr int window_tokens = 4096;

template <class Mask> constexpr auto attention(Mask visible) {
    const auto scores = mask(q * t(k) * rsqrt(depth), visible);
    return outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
}
inline constexpr auto document = input<"document", i32>(position);

inline constexpr auto causal_whole = attention(causal);
inline constexpr auto causal_shard = shard(causal_whole);
inline constexpr auto window_whole = attention(window(window_tokens - 1, 0));
inline constexpr auto window_shard = shard(window_whole);
inline constexpr auto documents_whole = attention(document(q_idx) == document(kv_idx) && causal);
inline constexpr auto documents_shard = shard(documents_whole);

}  // namespace simulated
