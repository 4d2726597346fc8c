#pragma once
#include <attune/dsl.hpp>

/// Blocks of B keys that the call itself chooses: each gets a number, and the queries see those of the largest. The
/// last query meets the last key in use, as in decode and in prefill by chunks. x is called like q, y like k. What
/// stands for blocks is called with (b, h, block, channel): means(b, h, n, c), say, which is computed in the call or an
/// input that the caller keeps beside the cache. The numbers themselves, ..._scores(...), can be an output of the call.
/// An indexer chooses among single keys.
namespace attune::catalogue {

using namespace dsl;

namespace detail {
inline constexpr auto n = bound_index<"key_block">;
inline constexpr auto i = bound_index<"query_block">;
inline constexpr auto r = bound_index<"row">;
inline constexpr auto c = bound_index<"channel">;
inline constexpr double lowest = -3e38;  // a number, so that nothing counts as masked where a block has no key in use

constexpr auto blocks_of(operand auto length, operand auto size) { return (length + size - 1) / size; }
/// The key that a query meets.
constexpr auto own_key(operand auto query) { return query + kv_lengths(b) - query_length; }
}  // namespace detail

/// (b, h, n, d): the mean of keys n B to n B + B - 1, as far as they are in use; of values with value_depth.
template <class K> constexpr auto mean_of_keys(K y, operand auto size, operand auto channels) {
    using namespace detail;
    return precomputed(sum(r, size, where(n * size + r < kv_lengths(b), y(b, h, n * size + r, c), 0.0)) /
                           max(min(kv_lengths(b) - n * size, size), 1),
                       n, blocks_of(key_length, size), c, channels);
}

/// (b, h, n, d): the greatest of keys n B to n B + B - 1 by channel, as far as they are in use.
template <class K> constexpr auto greatest_of_keys(K y, operand auto size) {
    using namespace detail;
    const auto all = largest(r, size, where(n * size + r < kv_lengths(b), y(b, h, n * size + r, c), -inf));
    return precomputed(max(all, lowest), n, blocks_of(key_length, size), c, depth);
}

/// (b, h, n, d): the least of them.
template <class K> constexpr auto least_of_keys(K y, operand auto size) {
    using namespace detail;
    const auto all = largest(r, size, where(n * size + r < kv_lengths(b), -y(b, h, n * size + r, c), -inf));
    return precomputed(-max(all, lowest), n, blocks_of(key_length, size), c, depth);
}

/// (b, h, i, d): the mean of queries i B to i B + B - 1.
template <class Q> constexpr auto mean_of_queries(Q x, operand auto size) {
    using namespace detail;
    return precomputed(sum(r, size, where(i * size + r < query_length, x(b, h, i * size + r, c), 0.0)) /
                           max(min(query_length - i * size, size), 1),
                       i, blocks_of(query_length, size), c, depth);
}

/// (b, h, i, n): the product of the means of queries i B to i B + B - 1 and of keys n B to n B + B - 1; -infinity from
/// the first query's own block on.
template <class Queries, class Keys>
constexpr auto pooled_scores(Queries query_means, Keys key_means, operand auto size) {
    using namespace detail;
    const auto product = sum(c, depth, query_means(b, h, i, c) * key_means(b, h, n, c));
    return precomputed(where(n < own_key(i * size) / size, product, -inf), i, blocks_of(query_length, size), n,
                       blocks_of(key_length, size));
}

/// k // B is the own block of a query in q // B, or one of the `count` before it with the largest products of the two
/// blocks' means. All queries of a block choose together, so prefill skips the blocks that they leave.
template <class Queries, class Keys>
constexpr auto pooled_blocks(Queries query_means, Keys key_means, operand auto size, operand auto count) {
    using namespace detail;
    const auto chosen = top_k(pooled_scores(query_means, key_means, size), count);
    return causal_bottom_right &&
           (kv_idx / size >= own_key(q_idx / size * size) / size || chosen(b, h, q_idx / size, kv_idx / size));
}

/// (b, h, i, n): the product of query i and the mean of keys n B to n B + B - 1; -infinity from its own block on.
template <class Q, class Keys> constexpr auto moba_scores(Q x, Keys means, operand auto size) {
    using namespace detail;
    const auto product = sum(c, depth, x(b, h, i, c) * means(b, h, n, c));
    return precomputed(where(n < own_key(i) / size, product, -inf), i, query_length, n, blocks_of(key_length, size));
}

/// k // B is the query's own block, or one of the `count` before it whose mean key has the largest product with the
/// query. (MoBA, Lu et al. 2025)
template <class Q, class Keys> constexpr auto moba(Q x, Keys means, operand auto size, operand auto count) {
    using namespace detail;
    const auto chosen = top_k(moba_scores(x, means, size), count);
    return causal_bottom_right && (kv_idx / size == own_key(q_idx) / size || chosen(b, h, q_idx, kv_idx / size));
}

/// (b, h, i, n): the largest product that query i may have with a key of page n: Sum_d max(q[d] low[page, d], q[d]
/// high[page, d]), the least and the greatest of the page's keys by channel; -infinity where no key is in use.
template <class Q, class Low, class High> constexpr auto quest_scores(Q x, Low low, High high, operand auto size) {
    using namespace detail;
    const auto bound = sum(c, depth, max(x(b, h, i, c) * low(b, h, n, c), x(b, h, i, c) * high(b, h, n, c)));
    return precomputed(where(n * size < kv_lengths(b), bound, -inf), i, query_length, n, blocks_of(key_length, size));
}

/// k // B is one of the `count` pages whose keys may have the largest product with the query, by quest_scores. (Quest,
/// Tang et al. 2024)
template <class Q, class Low, class High>
constexpr auto quest(Q x, Low low, High high, operand auto size, operand auto count) {
    using namespace detail;
    const auto chosen = top_k(quest_scores(x, low, high, size), count);
    return causal_bottom_right && chosen(b, h, q_idx, kv_idx / size);
}

/// (b, h, i, n): the attention that the query heads of the key head together pay to a block's compressed key: Sum_h
/// softmax_n(q[h] . compressed[n] / sqrt(D)), over the blocks before query i; -infinity from its own block on.
template <class Q, class Keys> constexpr auto nsa_scores(Q x, Keys compressed, operand auto size) {
    using namespace detail;
    const auto blocks = blocks_of(key_length, size);
    const auto is_before = n < own_key(i) / size;
    const auto product = sum(c, depth, x(b, h, i, c) * compressed(b, h, n, c)) * rsqrt(depth);
    const auto scores = precomputed(where(is_before, product, -inf), i, query_length, n, blocks);
    const auto top = precomputed(largest(n, blocks, scores(b, h, i, n)), i, query_length);
    const auto all = precomputed(sum(n, blocks, exp(scores(b, h, i, n) - top(b, h, i))), i, query_length);
    const auto other = h / (heads / key_heads) * (heads / key_heads) + r;
    const auto weights = sum(r, heads / key_heads, exp(scores(b, other, i, n) - top(b, other, i)) / all(b, other, i));
    return precomputed(where(is_before, weights, -inf), i, query_length, n, blocks);
}

/// k // B is the first block, one of the last two, or one of the `count` before the query with the largest nsa_scores.
/// (NSA, Yuan et al. 2025)
template <class Q, class Keys>
constexpr auto nsa_selection(Q x, Keys compressed, operand auto size, operand auto count) {
    using namespace detail;
    const auto chosen = top_k(nsa_scores(x, compressed, size), count);
    return causal_bottom_right &&
           (kv_idx < size || kv_idx / size >= own_key(q_idx) / size - 1 || chosen(b, h, q_idx, kv_idx / size));
}

/// (b, h, i, n): the attention of queries i B to i B + B - 1 to keys n B to n B + B - 1, as every S-th antidiagonal
/// estimates it: Sum_r q[i S + S - 1 - r] . k[j S + r] / (S sqrt(D)), softmax over j, summed over the i and j of two
/// blocks. B is a multiple of S.
template <class Q, class K> constexpr auto xattention_scores(Q x, K y, operand auto size, operand auto stride) {
    using namespace detail;
    constexpr auto m = bound_index<"part_of_queries">;
    constexpr auto l = bound_index<"part_of_keys">;
    const auto width = stride * depth;  // rows of a part, one after another
    const auto query_parts = blocks_of(query_length, stride);
    const auto key_parts = blocks_of(key_length, stride);
    const auto query = i * stride + (stride - 1 - c / depth);
    const auto key = n * stride + c / depth;
    const auto of_queries =
        precomputed(where(query < query_length, x(b, h, query, c % depth), 0.0), i, query_parts, c, width);
    const auto of_keys = precomputed(where(key < kv_lengths(b), y(b, h, key, c % depth), 0.0), n, key_parts, c, width);
    const auto product = sum(c, width, of_queries(b, h, i, c) * of_keys(b, h, n, c)) * rsqrt(depth) / stride;
    const auto is_before = n <= own_key(i * stride + stride - 1) / stride && n * stride < kv_lengths(b);
    const auto scores = precomputed(where(is_before, product, -inf), i, query_parts, n, key_parts);
    const auto top = precomputed(largest(n, key_parts, scores(b, h, i, n)), i, query_parts);
    const auto all = precomputed(sum(n, key_parts, exp(scores(b, h, i, n) - top(b, h, i))), i, query_parts);
    const auto weight = [&](auto part, auto of) {
        return where(part < query_parts, exp(scores(b, h, part, of) - top(b, h, part)) / max(all(b, h, part), 1e-30),
                     0.0);
    };
    const auto parts = size / stride;
    const auto blocks = blocks_of(query_length, size);
    const auto of_parts = precomputed(sum(m, parts, weight(i * parts + m, l)), i, blocks, l, key_parts);
    const auto of_part = [&](auto part) { return where(part < key_parts, of_parts(b, h, i, part), 0.0); };
    return precomputed(sum(l, parts, of_part(n * parts + l)), i, blocks, n, blocks_of(key_length, size));
}

/// k // B is the own block of a query in q // B, or one of those that hold the `share` of these queries' attention by
/// xattention_scores. (XAttention, Xu et al. 2025)
template <class Q, class K>
constexpr auto xattention(Q x, K y, operand auto size, operand auto stride, operand auto share) {
    using namespace detail;
    const auto chosen = top_p(xattention_scores(x, y, size, stride), share);
    return causal_bottom_right &&
           (kv_idx / size >= own_key(q_idx / size * size) / size || chosen(b, h, q_idx / size, kv_idx / size));
}

/// (b, 0, i, n): Sum_j w[b, i, j] max(x[b, j, i] . y[b, n], 0), over the heads of an indexer, for each query and key,
/// the same for all heads of the attention; -infinity for a key behind the query. x has heads and a depth of its own, y
/// one head.
template <class Q, class K, class W>
constexpr auto indexer_scores(Q x, K y, W w, operand auto indexer_heads, operand auto indexer_depth) {
    using namespace detail;
    constexpr auto j = bound_index<"indexer_head">;
    const auto product = sum(c, indexer_depth, x(b, j, i, c) * y(b, n, c));
    const auto score = sum(j, indexer_heads, w(b, i, j) * max(product, 0.0));
    return precomputed(where(n <= own_key(i), score, -inf), i, query_length, n, key_length);
}

/// k is one of the `count` keys up to the query's own with the largest indexer_scores. (DeepSeek V3.2, DeepSeek-AI
/// 2025)
template <class Q, class K, class W>
constexpr auto indexed_keys(Q x, K y, W w, operand auto indexer_heads, operand auto indexer_depth, operand auto count) {
    const auto chosen = top_k(indexer_scores(x, y, w, indexer_heads, indexer_depth), count);
    return causal_bottom_right && chosen(b, 0, q_idx, kv_idx);
}

}  // namespace attune::catalogue
