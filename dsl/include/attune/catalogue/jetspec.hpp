#pragma once
#include <attune/dsl.hpp>

/// Speculative decoding: a prefix of P tokens, then drafts. (JetSpec)
namespace attune::catalogue {

using namespace dsl;

/// k < P, or (P <= k < P + N and A[q, k - P]), A[i, j] = j is i or an ancestor of it: a tree of N drafts.
/// (attention-gym generate_jetspec_tree_causal_mask_mod)
template <class Ancestors> constexpr auto tree_causal(operand auto prefix, operand auto drafts, Ancestors ancestor) {
    return kv_idx < prefix || (kv_idx - prefix >= 0 && kv_idx - prefix < drafts && ancestor(q_idx, kv_idx - prefix));
}

/// k < P, or (k >= P, q // B == (k - P) // B, (k - P) % B <= q % B): blocks of B drafts. (attention-gym
/// generate_jetspec_training_mask_mod)
constexpr auto draft_blocks(operand auto prefix, operand auto block) {
    const auto drafted = kv_idx - prefix;  // of a prefix token it is negative, and so is its block
    return kv_idx < prefix || (q_idx / block == drafted / block && drafted % block <= q_idx % block);
}

}  // namespace attune::catalogue
