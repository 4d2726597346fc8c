#pragma once
#include <attune/dsl.hpp>

/// Several sequences in one: by a document id for each position, by equal lengths, or packed without padding at
/// offsets.
namespace attune::catalogue {

using namespace dsl;

/// doc[q] == doc[k]; `doc` is called with a position: an input over it, or a function such as [](auto i) { return
/// doc(b, h, i); }. (FlashAttention 4, test mask document)
template <class Ids> constexpr auto same_document(Ids doc) { return doc(q_idx) == doc(kv_idx); }

/// doc[q] == doc[k] and inner(q - off[doc q], k - off[doc k]). (attention-gym generate_doc_mask_mod)
template <class Ids, class Offsets, class Inner> constexpr auto document(Ids doc, Offsets off, Inner inner) {
    return same_document(doc) && inner(q_idx - off(doc(q_idx)), kv_idx - off(doc(kv_idx)));
}

/// off[doc[q]] <= k <= q: one interval for each row. (attention-gym generate_packed_causal_doc_mask_mod)
template <class Ids, class Offsets> constexpr auto packed_causal(Ids doc, Offsets off) {
    return off(doc(q_idx)) <= kv_idx && causal;
}

/// off[doc q] <= k <= q, or (p != doc q and off[p] <= k < off[p + 1]), p = pre[doc q]: documents that continue another.
/// (attention-gym generate_shared_prefix_mask_mod)
template <class Ids, class Offsets, class Prefixes> constexpr auto shared_prefix(Ids doc, Offsets off, Prefixes pre) {
    const auto p = pre(doc(q_idx));
    return packed_causal(doc, off) || (p != doc(q_idx) && off(p) <= kv_idx && kv_idx < off(p + 1));
}

/// q // n == k // n. (FlashAttention 4, test mask block-diagonal)
constexpr auto block_diagonal(operand auto n) { return q_idx / n == kv_idx / n; }

/// q // n == k // n and inner(q % n, k % n): a batch of sequences of n. (attention-gym batchify_mask_mod)
template <class Inner> constexpr auto batchified(operand auto n, Inner inner) {
    return block_diagonal(n) && inner(q_idx % n, kv_idx % n);
}

/// The sequence s with cu[s] <= i < cu[s + 1], from offsets that start at 0 and end at the length; nothing lies in
/// empty sequences.
template <class Offsets> constexpr auto sequence_of(Offsets cu, operand auto i) {
    constexpr auto n = bound_index<"sequence">;
    return sum(n, extent<0>(cu) - 1, cu(n + 1) <= i);
}

/// cu_k[s] <= k < cu_k[s + 1], s the sequence of q: both of one sequence, in sequences packed without padding.
/// (FlashAttention varlen)
template <class QueryOffsets, class KeyOffsets> constexpr auto same_sequence(QueryOffsets cu_q, KeyOffsets cu_k) {
    const auto s = sequence_of(cu_q, q_idx);
    return cu_k(s) <= kv_idx && kv_idx < cu_k(s + 1);
}

/// Same sequence s and inner(q - cu_q[s], k - cu_k[s]). (FlashAttention 4, mask_mod with varlen)
template <class QueryOffsets, class KeyOffsets, class Inner>
constexpr auto varlen(QueryOffsets cu_q, KeyOffsets cu_k, Inner inner) {
    const auto s = sequence_of(cu_q, q_idx);
    return same_sequence(cu_q, cu_k) && inner(q_idx - cu_q(s), kv_idx - cu_k(s));
}

/// Same sequence s and k - cu_k[s + 1] <= q - cu_q[s + 1]: causal, its last query meets its last key. (FlashAttention
/// varlen)
template <class QueryOffsets, class KeyOffsets> constexpr auto varlen_causal(QueryOffsets cu_q, KeyOffsets cu_k) {
    const auto s = sequence_of(cu_q, q_idx);
    return same_sequence(cu_q, cu_k) && kv_idx - cu_k(s + 1) <= q_idx - cu_q(s + 1);
}

/// Same sequence, and 0 <= q - k <= w[q] counted inside it. (FlashAttention 4, test mask with a window a row)
template <class QueryOffsets, class KeyOffsets, class Windows>
constexpr auto varlen_row_window(QueryOffsets cu_q, KeyOffsets cu_k, Windows w) {
    return varlen(cu_q, cu_k, [w](auto q, auto k) { return k <= q && q - k <= w(q_idx); });
}

/// Same sequence, and doc_q[q] == doc_k[k], both read at the packed position. (FlashAttention 4, test mask with global
/// document ids)
template <class QueryOffsets, class KeyOffsets, class QueryIds, class KeyIds>
constexpr auto varlen_document(QueryOffsets cu_q, KeyOffsets cu_k, QueryIds doc_q, KeyIds doc_k) {
    return same_sequence(cu_q, cu_k) && doc_q(q_idx) == doc_k(kv_idx);
}

}  // namespace attune::catalogue
