#pragma once
#include <attune/dsl.hpp>

/// Scores plus learned numbers for each batch element, head, query or key; and arithmetic on the score alone.
namespace attune::catalogue {

using namespace dsl;

/// s + 2 h. (attention-gym, notebook)
constexpr auto head_number_bias(expression auto s) { return s + 2 * h; }

/// s + bias[b]. (FlashAttention 4, test modification batch bias)
template <class Bias> constexpr auto batch_bias(expression auto s, Bias bias) { return s + bias(b); }

/// s + of_head[h] + of_query[q]. (FlashAttention 4, test modification dual buffers)
template <class OfHead, class OfQuery>
constexpr auto head_and_query_bias(expression auto s, OfHead of_head, OfQuery of_query) {
    return s + of_head(h) + of_query(q_idx);
}

/// s + of_query[q] + of_key[k], both read at the packed position. (FlashAttention 4, test modification global q and kv
/// bias)
template <class OfQuery, class OfKey>
constexpr auto query_and_key_bias(expression auto s, OfQuery of_query, OfKey of_key) {
    return s + of_query(q_idx) + of_key(kv_idx);
}

/// s head_scale[h] + of_batch[b] + of_query[q] + of_key[k]. (FlashAttention 4, test modification with five buffers, the
/// fifth a distance_table)
template <class HeadScale, class OfBatch, class OfQuery, class OfKey>
constexpr auto scaled_and_biased(expression auto s, HeadScale head_scale, OfBatch of_batch, OfQuery of_query,
                                 OfKey of_key) {
    return s * head_scale(h) + of_batch(b) + of_query(q_idx) + of_key(kv_idx);
}

/// s + bias[b, h, q, k], broadcast where an axis is 1; -infinity masks. (PyTorch attn_mask, ONNX Attention)
template <class Bias> constexpr auto dense_bias(expression auto s, Bias bias) { return s + bias(b, h, q_idx, kv_idx); }

/// mask[b, h, q, k], broadcast where an axis is 1. (PyTorch boolean attn_mask)
template <class Mask> constexpr auto dense_mask(Mask visible) { return visible(b, h, q_idx, kv_idx); }

/// Bit k % 8 of packed[b, q, k // 8]: a boolean mask at an eighth of the memory. (FlashInfer packed_custom_mask)
template <class Packed> constexpr auto packed_mask(Packed packed) {
    return bit(packed(b, q_idx, kv_idx / 8), kv_idx % 8);
}

/// 2 s. (FlashAttention 4, test modification times two)
constexpr auto times_two(expression auto s) { return 2 * s; }

/// s s. (FlashAttention 4, test modification squared)
constexpr auto squared(expression auto s) { return s * s; }

}  // namespace attune::catalogue
