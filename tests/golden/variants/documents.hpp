#pragma once
#include "common.hpp"

/// Packed sequences: a document id per position, and where each document starts.
namespace golden {

inline constexpr auto doc_id = input<"doc_id", i32>(position);
inline constexpr auto offsets = input<"offsets", i32>(axis<"document">);

inline constexpr auto same_document = doc_id(q_idx) == doc_id(kv_idx);
inline constexpr auto local_q = q_idx - offsets(doc_id(q_idx));
inline constexpr auto local_k = kv_idx - offsets(doc_id(kv_idx));

inline constexpr auto mask_document_causal = attention(mask(scores, same_document && local_q >= local_k));
inline constexpr auto mask_document_window = attention(mask(scores, same_document && local_q - local_k >= 0 && local_q - local_k <= w));
inline constexpr auto mask_packed_causal_document = attention(mask(scores, offsets(doc_id(q_idx)) <= kv_idx && kv_idx <= q_idx));

/// Document ids of their own for every batch element and head.
inline constexpr auto doc_of_head = input<"doc_id", i32>(batch, head, position);
inline constexpr auto mask_fa4_document = attention(mask(scores, doc_of_head(b, h, q_idx) == doc_of_head(b, h, kv_idx)));

/// Documents that continue another one: they see its tokens and their own past.
inline constexpr auto prefix_doc = input<"prefix_doc", i32>(axis<"document">);
inline constexpr auto own = doc_id(q_idx);
inline constexpr auto shared = prefix_doc(own);
inline constexpr auto mask_shared_prefix = attention(mask(scores, (offsets(own) <= kv_idx && kv_idx <= q_idx) ||
                                                                  (shared != own && offsets(shared) <= kv_idx && kv_idx < offsets(shared + 1))));

/// Scale, softcap, ALiBi, documents and a window, in that order.
inline constexpr auto cap_of_combined = scalar<"cap", f32>;
inline constexpr auto conv_combined = attention(mask(softcap(cap_of_combined, scores) + slopes(h) * (kv_idx - q_idx),
                                                     same_document && window(w, 0)));

}  // namespace golden
