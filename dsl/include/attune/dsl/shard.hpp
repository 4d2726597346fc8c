#pragma once
#include <attune/dsl/attention.hpp>
#include <attune/ir/builder.hpp>

/// Shards: a graph made of a graph. Each of its calls computes the attention of some queries to some of the keys.
///
///     inline constexpr auto alibi = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
///     inline constexpr auto alibi_shard = shard(alibi);
namespace attune::dsl {

/// Inputs of every shard beside the graph's own, about the whole. A shard reads those that its graph needs.
namespace of_shard {
inline constexpr auto query_positions = input<"query_positions", i32>(query);  ///< of the rows of q
inline constexpr auto key_positions = input<"key_positions", i32>(key);        ///< of the rows of k and v
inline constexpr auto all_queries = scalar<"all_queries", i32>;                ///< query_length of the whole
inline constexpr auto all_keys = scalar<"all_keys", i32>;                      ///< key_length of the whole
inline constexpr auto lengths = input<"lengths", i32>(batch);                  ///< kv_lengths of the whole, or all_keys
inline constexpr auto with_sinks = scalar<"with_sinks", i32>;  ///< 1 in one of the calls for a query, 0 in the others
inline constexpr auto first_head = scalar<"first_head", i32>;  ///< of the call's heads, in the whole
inline constexpr auto all_heads = scalar<"all_heads", i32>;    ///< heads of the whole
inline constexpr auto all_key_heads = scalar<"all_key_heads", i32>;
}  // namespace of_shard

/// before(out): the output of the calls before, called out_before. In the calls of a shard.
template <name Label> constexpr output_name<before_name<Label>> before(const output_name<Label>&) { return {}; }

/// `shard(graph)` over any set of the keys, with its outputs joined with those of the calls before.
template <class Graph> struct shard_of {
    Graph graph;
};
template <class T> inline constexpr bool is_shard = false;
template <class Graph> inline constexpr bool is_shard<shard_of<Graph>> = true;

/// The graph over some queries and some keys, which may be any in any order: calls for parts of the keys, one after the
/// other, give the result of one call of the graph. The shard of a gradient gives the sums that the pairs of these
/// queries and keys add to each derivative; the caller adds up those of all calls.
template <class Graph> constexpr shard_of<Graph> shard(const Graph& graph) { return {graph}; }

namespace detail {

// Echoed with what is at fault.
template <shard_fault Why, name Found> inline constexpr bool can_be_a_shard = Why == shard_fault::none;

/// One sentence for each reason.
template <shard_fault Why, name Found> constexpr bool has_a_shard() {
    using enum shard_fault;
    static_assert(Why != of_a_shard || can_be_a_shard<Why, Found>, "attune: a shard has no shards; it takes any keys");
    static_assert(Why != of_several_cores || can_be_a_shard<Why, Found>,
                  "attune: a shard has one softmax; make a graph of each");
    static_assert(Why != of_stores || can_be_a_shard<Why, Found>,
                  "attune: a graph that stores has no shard, as its calls would each store; make the shard of a graph "
                  "without the stores, and store in a call of its own");
    static_assert(Why != of_a_recurrence || can_be_a_shard<Why, Found>,
                  "attune: attune makes no shard of a recurrence yet, whose tokens follow one another; call it for one "
                  "part after the other, each with the state of the part before");
    static_assert(Why != of_tokens || can_be_a_shard<Why, Found>,
                  "attune: attune makes no shard of a graph with tokens, which are made of all heads and keys; make a "
                  "graph of its own of the attention");
    static_assert(
        Why != of_precomputed || can_be_a_shard<Why, Found>,
        "attune: attune makes no shard of a graph with precomputed tensors, which are made of all queries and "
        "keys; pass what they choose as an input, such as a boolean tensor of blocks");
    static_assert(Why != of_pairs_or_keys || can_be_a_shard<Why, Found>,
                  "attune: the outputs of a shard are sums over the keys, their log_sum_exp and row_maximum; scores, "
                  "weights, columns and head means are not");
    static_assert(Why != not_a_sum || can_be_a_shard<Why, Found>,
                  "attune: the outputs of a shard are weights * v, log_sum_exp, row_maximum and row_sum as they are; "
                  "arithmetic after the sum belongs after the last call");
    static_assert(Why != no_log_sum_exp || can_be_a_shard<Why, Found>,
                  "attune: the shard of a softmax needs its log_sum_exp, of the same scores and sink, among the "
                  "outputs: outputs(out = softmax(scores) * v, lse = log_sum_exp(scores))");
    static_assert(Why != read_elsewhere || can_be_a_shard<Why, Found>,
                  "attune: a shard has some rows of q, k and v; the formula reads rows of one of them at another "
                  "index, too: pass what it reads there as a further input");
    return Why == none;
}

}  // namespace detail

}  // namespace attune::dsl
