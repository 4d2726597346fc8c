#pragma once
#include <attune/dsl/shard.hpp>
#include <attune/ir/graph_ir.hpp>
#include <attune/runtime/detail/call.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

/// The roles of a shard's inputs in a call over ranks.
namespace attune::mpi::detail {

enum class role : std::uint8_t {
    supplied,  ///< by the plan or by the calls before: positions, lengths of the whole, earlier results
    travels,   ///< this rank's keys, which go to the ranks that need them
    own_rows,  ///< this rank's queries
    whole,     ///< the same on every rank
};

/// Whether a call over ranks passes an input itself. `Graph`: of a call, or of the compiler's check of one.
template <class Graph> constexpr bool is_supplied(const Graph& shard, std::string_view input) {
    using namespace dsl::of_shard;
    for (const std::string_view own :
         {query_positions.label, key_positions.label, all_queries.label, all_keys.label, lengths.label,
          with_sinks.label, first_head.label, all_heads.label, all_key_heads.label})
        if (input == own) return true;
    constexpr std::string_view ending = "_before";
    if (!input.ends_with(ending)) return false;
    for (const output_declaration& output : shard.outputs)
        if (!output.name.empty() && input.substr(0, input.size() - ending.size()) == output.name) return true;
    return false;
}

/// The nodes that one is made of, itself among them.
std::vector<bool> reached_from(const graph_ir& graph, node_id node);

role role_of(const graph_ir& shard, const input_declaration& input);

/// The tensor that an output is the gradient of.
const input_declaration& tensor_of_gradient(const graph_ir& shard, const output_declaration& output);

/// The outermost scores, which decide all visibility.
node_id scores_of(const graph_ir& shard);

/// Refuses a variant that would take a rank's keys for all of them.
void check_is_shard(const graph_ir& graph, std::string_view variant);

/// Refuses tensors that cannot be read, or are of another form than declared: inputs that decide who needs whose keys
/// are read before a kernel's own checks. Tables over position have an entry for each of `tokens`.
void check_tensors(const graph_ir& shard, std::span<const attune::detail::named_argument> given, std::int64_t tokens);

/// The place of an axis in an input's declaration.
std::optional<int> axis_of(const input_declaration& input, axis_kind kind);

/// The input as which an output of the calls before is passed; null if the shard reads none.
const input_declaration* before_of(const graph_ir& shard, std::string_view output);

/// Whether an output of the calls before the first is -infinity, as log-sum-exps and maxima are, and not 0.
bool begins_at_minus_infinity(const graph_ir& shard, const output_declaration& output);

/// The inputs on which the conditions of the scores depend. Without lengths for each batch element all keys are in use.
struct deciders {
    std::vector<bool> inputs;  ///< by their place in the graph
    bool by_head{}, by_batch{};
};
deciders deciders_of(const graph_ir& shard, bool with_lengths);

/// The inputs that a caller passes and on which the conditions depend, each with a hash of its value. Of an input over
/// queries or keys the hash takes the rows `own` of the plan's tensors, or all rows of a call's.
std::vector<std::pair<std::string_view, std::uint64_t>> decided_by(
    const graph_ir& shard, std::span<const attune::detail::named_argument> given,
    std::optional<std::span<const std::int32_t>> own);

}  // namespace attune::mpi::detail
