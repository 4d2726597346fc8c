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

/// k < L - Lq or A[q, k - (L - Lq)], L = kv_lengths(b): the queries are a tree of drafts, and the last keys in use are
/// theirs; A as above, called with a query and a draft. (SpecInfer, Miao et al. 2023)
template <class Ancestors> constexpr auto draft_tree(Ancestors ancestor) {
    const auto draft = kv_idx - (kv_lengths(b) - query_length);
    return draft < 0 || ancestor(q_idx, draft);
}

/// k < P, or (k >= P, q // B == (k - P) // B, (k - P) % B <= q % B): blocks of B drafts. (attention-gym
/// generate_jetspec_training_mask_mod)
constexpr auto draft_blocks(operand auto prefix, operand auto block) {
    const auto drafted = kv_idx - prefix;  // of a prefix token it is negative, and so is its block
    return kv_idx < prefix || (q_idx / block == drafted / block && drafted % block <= q_idx % block);
}

}  // namespace attune::catalogue
