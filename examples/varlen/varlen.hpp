#pragma once
#include <attune/dsl.hpp>

/// Sequences of different lengths behind one another, without padding. Sequence n has the queries from cu_seqlens_q[n]
/// up to cu_seqlens_q[n + 1], and its keys likewise. Within a sequence the last query meets the last key, so that a
/// cache may be longer than what is asked of it. (FlashAttention's varlen functions)
namespace varlen {
using namespace attune::dsl;

inline constexpr auto cu_seqlens_q = input<"cu_seqlens_q", i32>(axis<"sequence">);
inline constexpr auto cu_seqlens_k = input<"cu_seqlens_k", i32>(axis<"sequence">);

inline constexpr auto n = bound_index<"n">;
inline constexpr auto sequence =
    sum(n, extent<0>(cu_seqlens_q) - 1, cu_seqlens_q(n + 1) <= q_idx);  // how many end before the query
inline constexpr auto first = cu_seqlens_k(sequence);
inline constexpr auto end = cu_seqlens_k(sequence + 1);

inline constexpr auto visible = first <= kv_idx && kv_idx < end && end - kv_idx >= cu_seqlens_q(sequence + 1) - q_idx;
inline constexpr auto attention = softmax(mask(q * t(k) * rsqrt(depth), visible)) * v;  // (b, h, lq, dv)

}  // namespace varlen
