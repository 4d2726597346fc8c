#pragma once
#include "common.hpp"

/// Packed sequences: a document id per position, or where each sequence starts.
namespace golden {

inline constexpr auto doc_id = input<"doc_id", i32>(position);
inline constexpr auto offsets = input<"offsets", i32>(axis<"document">);

inline constexpr auto mask_document_causal =
    masked(catalogue::document(doc_id, offsets, [](auto q, auto k) { return q >= k; }));
inline constexpr auto mask_document_window =
    masked(catalogue::document(doc_id, offsets, [](auto q, auto k) { return q - k >= 0 && q - k <= w; }));
inline constexpr auto mask_packed_causal_document = masked(catalogue::packed_causal(doc_id, offsets));
inline constexpr auto prefix_doc = input<"prefix_doc", i32>(axis<"document">);
inline constexpr auto mask_shared_prefix = masked(catalogue::shared_prefix(doc_id, offsets, prefix_doc));

/// Document ids of their own for every batch element and head.
inline constexpr auto doc_of_head = input<"doc_id", i32>(batch, head, position);
inline constexpr auto mask_fa4_document = masked(catalogue::same_document([](auto i) { return doc_of_head(b, h, i); }));

/// Scale, softcap, ALiBi, documents and a window, in that order.
inline constexpr auto conv_combined = attention(mask(catalogue::softcap_alibi(scalar<"cap", f32>, slopes(h), scores),
                                                     catalogue::same_document(doc_id) && catalogue::sliding_window(w)));

/// Sequences packed without padding.
inline constexpr auto cu_q = input<"cu_seqlens_q", i32>(axis<"query_sequence">);
inline constexpr auto cu_k = input<"cu_seqlens_k", i32>(axis<"key_sequence">);
inline constexpr auto conv_varlen_causal = masked(catalogue::varlen_causal(cu_q, cu_k));
inline constexpr auto windows_of_rows = input<"windows", i32>(query);
inline constexpr auto mask_fa4_row_window = masked(catalogue::varlen_row_window(cu_q, cu_k, windows_of_rows));
inline constexpr auto doc_q = input<"doc_q", i32>(query);
inline constexpr auto doc_k = input<"doc_k", i32>(key);
inline constexpr auto mask_fa4_packed_document = masked(catalogue::varlen_document(cu_q, cu_k, doc_q, doc_k));

inline constexpr auto key_bias = input<"bias", f32>(key);
inline constexpr auto score_fa4_conditional =
    attention(catalogue::conditional(scores, cu_q, cu_k, scalar<"T", i32>, key_bias));
inline constexpr auto q_bias = input<"q_bias", f32>(query);
inline constexpr auto kv_bias = input<"kv_bias", f32>(key);
inline constexpr auto score_fa4_global_bias =
    attention(mask(catalogue::query_and_key_bias(scores, q_bias, kv_bias), catalogue::same_sequence(cu_q, cu_k)));
inline constexpr auto score_fa4_rel_plus_kv_bias =
    attention(catalogue::varlen_distance_bias(scores, cu_q, cu_k, scalar<"c", f32>, kv_bias));

}  // namespace golden
