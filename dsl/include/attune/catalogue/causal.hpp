#pragma once
#include <attune/dsl.hpp>

/// Masks by which of the two positions comes first. `causal` (q >= k) and `causal_bottom_right` (k <= q + Lk -
/// Lq, Lk the keys in use) are the language's own.
namespace attune::catalogue {

using namespace dsl;

/// q >= k ? s : -inf, as a score modification. (attention-gym, benchmarks)
constexpr auto causal_score(expression auto s) { return where(causal, s, -inf); }

/// k <= q + offset; rows with q + offset < 0 are empty. (FlashAttention 4, test mask causal with offset)
constexpr auto causal_with_offset(operand auto offset) { return kv_idx <= q_idx + offset; }

/// k <= q + (n - Lq): the last query meets the last of n keys; n is kv_lengths(b) if a cache is partly filled.
/// (FlashAttention 2, FlashInfer)
constexpr auto causal_up_to(operand auto length) { return kv_idx <= q_idx + (length - query_length); }

/// q % T >= k % T. (FlashAttention 4, test mask mini-causal, T = 128)
constexpr auto mini_causal(operand auto period) { return q_idx % period >= kv_idx % period; }

}  // namespace attune::catalogue
