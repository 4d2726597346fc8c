#pragma once
#include "../properties/drawn_graph.hpp"

#include <attune/dsl.hpp>
#include <attune/reference.hpp>
#include <attune/runtime/detail/call.hpp>

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

/// Calls of a graph's shard for parts of the queries and keys, one after the other, in double precision.
namespace attune::testing {

using positions = std::vector<std::int32_t>;

/// Sets of positions, together each once.
struct cut {
    std::vector<positions> queries, keys;
};

/// 1 to 5 sets of queries and of keys: uneven, empty ones among them, interleaved or not, ascending or not.
cut random_cut(std::int64_t queries, std::int64_t keys, std::mt19937& random);

drawn_graph copy_of(const graph_ir& graph);

struct sharded_graph {
    drawn_graph graph;
    dsl::detail::shard_fault fault{};
    bool is_one() const { return fault == dsl::detail::shard_fault::none; }
};
/// The pass over the list, while the program runs.
sharded_graph shard_of(const drawn_graph& graph);

/// Whose outputs shards have: what an output makes of a sum over the keys is left out, and what is of pairs or keys;
/// log-sum-exps of the softmaxes are added. False where nothing is left.
bool make_shardable(drawn_graph& graph);

/// A call of a graph, what it comes to, and its lengths.
struct whole_call {
    whole_call(const graph_ir& graph, std::vector<reference::argument> arguments, const reference::options& how);

    graph_ir graph;
    std::vector<reference::argument> arguments;
    reference::options how;
    reference::results expected;
    std::int64_t queries, keys, heads;
    std::int64_t key_heads = 0;  ///< 0: nothing says how many
};

/// Neighbouring heads, as many of each key head as the whole has.
struct some_heads {
    std::int64_t first, count, first_key_head, key_heads;
};
/// All heads at once, or key head by key head.
std::vector<some_heads> random_heads(const whole_call& whole, std::mt19937& random);

/// An argument of the reference's as one of a call.
detail::named_argument named(const reference::argument& a, const graph_ir& graph);

/// A shard's input in one of its calls: the tensor itself, or the rows that the call has of it.
class cut_arguments {
public:
    cut_arguments(const whole_call& whole, const graph_ir& shard) : whole_(whole), shard_(shard) {}

    /// All but what the calls before left; valid until the next.
    std::vector<reference::argument> of(const positions& queries, const positions& keys, bool with_sinks);
    std::vector<reference::argument> of(const positions& queries, const positions& keys, bool with_sinks,
                                        const some_heads& heads);

private:
    tensor rows_of(const tensor& all, const input_declaration& declared, const positions& queries,
                   const positions& keys, const some_heads& heads);
    tensor lengths();

    const whole_call& whole_;
    const graph_ir& shard_;
    std::vector<std::vector<std::byte>> held_;
    positions queries_, keys_, lengths_;
};

/// The shard's calls, for each set of queries and some heads one a set of keys: their outputs, where the whole call has
/// them.
reference::results in_parts(const whole_call& whole, const graph_ir& shard, const cut& by, std::mt19937& random);
/// The same, each call made by another than the reference evaluator: the outputs of one.
using shard_call = std::function<std::vector<reference::array>(const std::vector<reference::argument>&)>;
reference::results in_parts(const whole_call& whole, const graph_ir& shard, const cut& by, std::mt19937& random,
                            const shard_call& run);

/// The largest difference from the whole call, as a part of 1 + what is expected; infinities must agree.
double largest_difference(const reference::results& got, const whole_call& whole);

}  // namespace attune::testing
