#pragma once
#include <attune/dsl.hpp>

/// Masks with a prefix that everything sees.
namespace attune::catalogue {

using namespace dsl;

/// k < P or q >= k. (Prefix LM, Raffel et al. 2020; attention-gym generate_prefix_lm_mask)
constexpr auto prefix_lm(operand auto prefix) { return kv_idx < prefix || causal; }

/// (q < P and k < P) or q >= k: the same pairs. (FlashAttention 4, test mask prefix LM)
constexpr auto prefix_block(operand auto prefix) { return (q_idx < prefix && kv_idx < prefix) || causal; }

}  // namespace attune::catalogue
