#pragma once
#include <attune/catalogue/documents.hpp>

/// Scores that depend on the relative position of query and key.
namespace attune::catalogue {

using namespace dsl;

/// s + (q - k). (attention-gym, notebook)
constexpr auto relative(expression auto s) { return s + (q_idx - kv_idx); }

/// s + factor |q - k|; factor 1 and 2. (FlashAttention 4, test modifications rel bias and rel bias x2)
constexpr auto distance_bias(expression auto s, operand auto factor) { return s + factor * abs(q_idx - kv_idx); }

/// s + min(|q - k|, C). (FlashAttention 4, test modification clamped rel bias, C = 256)
constexpr auto clamped_distance_bias(expression auto s, operand auto limit) {
    return s + min(abs(q_idx - kv_idx), limit);
}

/// s + table[clamp(q - k + R, 0, 2 R)]: a learned bias for each distance. (Shaw et al. 2018; FlashAttention 4, test
/// modification with five buffers)
template <class Table> constexpr auto distance_table(expression auto s, Table table, operand auto radius) {
    return s + table(min(max(q_idx - kv_idx + radius, 0), 2 * radius));
}

/// s + scale[h] rel[q - k + N - 1], rel[d] = sum of cos(|d| 10000^(-2 i / dbar)) over i < dbar / 2, scale[h] = H / (8
/// (h + 1)). (Sandwich, Chi et al. 2023; attention-gym generate_sandwich_bias)
template <class Scale, class Table>
constexpr auto sandwich(expression auto s, Scale scale, Table rel, operand auto length) {
    return s + scale(h) * rel(q_idx - kv_idx + length - 1);
}

/// 0.5 s if |k - q| is odd, 2 s if it is even. (attention-gym, notebook)
constexpr auto checkerboard(expression auto s) { return where(abs(q_idx - kv_idx) % 2 == 1, s * 0.5, s * 2.0); }

/// s + c1 ((q xor k) & 255) + c2 bias[k]. (FlashAttention 4, test modification xor pattern)
template <class Bias> constexpr auto xor_pattern(expression auto s, operand auto c1, operand auto c2, Bias bias) {
    return s + c1 * ((q_idx ^ kv_idx) & 255) + c2 * bias(kv_idx);
}

/// Scores where q >= k in the sequence s and |q - k| <= T in the packed tensors, + bias[k]; masked elsewhere.
/// (FlashAttention 4, test modification conditional stress)
template <class QueryOffsets, class KeyOffsets, class Bias>
constexpr auto conditional(expression auto s, QueryOffsets cu_q, KeyOffsets cu_k, operand auto limit, Bias bias) {
    return mask(s + bias(kv_idx),
                varlen(cu_q, cu_k, [](auto q, auto k) { return q >= k; }) && abs(q_idx - kv_idx) <= limit);
}

/// s + c |q - k| counted inside the sequence, + bias[k] of the packed tensor. (FlashAttention 4, test modification rel
/// plus kv bias)
template <class QueryOffsets, class KeyOffsets, class Bias>
constexpr auto varlen_distance_bias(expression auto s, QueryOffsets cu_q, KeyOffsets cu_k, operand auto c, Bias bias) {
    const auto sequence = sequence_of(cu_q, q_idx);
    return mask(s + c * abs((q_idx - cu_q(sequence)) - (kv_idx - cu_k(sequence))) + bias(kv_idx),
                same_sequence(cu_q, cu_k));
}

}  // namespace attune::catalogue
