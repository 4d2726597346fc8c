#pragma once
#include <attune/mpi/context.hpp>
#include <attune/mpi/cost.hpp>
#include <attune/mpi/tree.hpp>
#include <attune/runtime/error.hpp>
#include <attune/runtime/run.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attune::mpi {

class layout;
namespace detail {
struct graph_to_plan;
layout plan(context& world, const planning& what, std::span<const graph_to_plan> graphs, const attune::options& how);
}  // namespace detail

/// Rows of one rank's keys that travel together: from `first` on among the rows of the rank that has them.
struct run_of_keys {
    int rank;  ///< the one that has them; among `sends` the one that needs them
    std::int64_t first, count;
    std::int64_t to = 0;  ///< in a stage of fixed positions: its row there
    bool operator==(const run_of_keys&) const = default;
};

/// The keys that one rank receives at once, and then computes with.
struct stage {
    std::vector<int> chunks;
    std::vector<run_of_keys> runs;
    std::int64_t tokens{};                      ///< that are received
    std::int64_t first_query = 0, queries = 0;  ///< own rows from the first to the last that sees any of them

    // Where results do not depend on the ranks: keys of these positions, whoever has them. A row that is neither
    // received nor this rank's own is hidden from all of its queries, and holds anything.
    std::int64_t first = 0, keys = 0;
    std::vector<run_of_keys> own{};
    bool is_empty() const { return runs.empty() && own.empty(); }
};

/// The work and the messages of one call of a graph.
struct exchange_plan {
    std::string variant;
    std::uint64_t fingerprint{};
    std::vector<stage> stages;                       ///< of this rank, after that of its own keys where these are one
    std::vector<std::pair<int, run_of_keys>> sends;  ///< with their stage, in the order in which they are sent
    cost predicted;
    std::vector<std::pair<arrangement, cost>> considered;  ///< the arrangements of which the model was asked
    double work{}, all_work{};                             ///< multiplications and additions, of this rank and of all
    detail::bytes_of_token bytes, bytes_without_heads;
    std::vector<std::pair<std::string_view, std::uint64_t>> decided_by;  ///< inputs, with a hash of their values here
    int travellers{};  ///< inputs whose rows are sent, each by messages of its own
    bool makes_gradients{};
    bool heads_differ{};  ///< in what is visible
    int returners{};      ///< gradients whose rows go back, likewise

    // Where several ranks share the heads of the same tokens. Bytes and stages are then those of this rank's share.
    std::int64_t head_bytes_sent{}, head_bytes_received{};  ///< of the exchange by heads
    int head_messages{};                                    ///< sent, and as many received
    int rows_in{}, rows_out{};  ///< inputs and outputs that take part, each by messages of its own

    // Of decode, where keys stay and states travel.
    tree joins;
    std::vector<run_of_keys> parts;  ///< rows of this rank for each of joins.own
    std::int64_t state_bytes{};      ///< of all outputs of all queries
    std::int64_t value_depth{};

    std::int64_t tokens_received() const;
    std::int64_t tokens_sent() const;
    std::int64_t bytes_received() const;
    std::int64_t bytes_sent() const;
    std::int64_t runs_received() const;
    std::int64_t messages_received() const;
    std::int64_t messages_sent() const;
};

/// A plan in words: `layout.explain().text()`.
struct plan_explanation {
    std::string sentences;
    const std::string& text() const { return sentences; }
};

/// The tokens of each rank, and its messages in the calls of some graphs. The same on every rank.
class layout {
public:
    /// This rank's tokens: row i of its q, k, v and outputs is the token positions()[i] of the whole sequence; in
    /// decode, of its k and v. Ascending, unless they are the caller's own.
    std::span<const std::int32_t> positions() const { return positions_; }
    plan_explanation explain() const;

    const planning& made_for() const { return made_for_; }
    bool decodes() const { return made_for_.queries > 0; }
    bool deterministic() const { return deterministic_; }  ///< results do not depend on the ranks
    arrangement chosen() const { return chosen_; }
    int head_parts() const { return std::max<int>(1, static_cast<int>(group_.size())); }
    /// Of the ranks that have this one's tokens together while they compute, the rows that each has of them, in the
    /// order of their shares of the heads. Empty where each rank has all heads.
    std::span<const run_of_keys> group() const { return group_; }
    /// What the ranks with the same heads exchange; null where each rank has all heads.
    const layout* of_same_heads() const { return of_same_heads_.get(); }
    bool is_of_same_heads() const { return apart_ > 1; }
    int share_of_heads() const { return part_; }  ///< which one this layout is of
    int shares_of_heads() const { return apart_; }
    int ranks_in_world() const { return ranks_ * apart_; }
    int in_world(int rank) const { return rank * apart_ + part_; }  ///< of one of this layout's ranks
    int rank() const { return rank_; }
    int ranks() const { return ranks_; }
    const mpi::chunks& chunks() const { return chunks_; }
    const std::vector<int>& owners() const { return owner_; }            ///< the rank of each chunk
    const std::vector<int>& part_owners() const { return part_owner_; }  ///< in decode, the rank of each part
    std::uint64_t hash() const { return hash_; }                         ///< of everything that all ranks have alike
    const exchange_plan& of(std::uint64_t fingerprint) const;
    std::span<const exchange_plan> graphs() const { return graphs_; }

    /// The plan of one rank, from what the masks leave.
    layout(const planning& what, int rank, int ranks, mpi::chunks tokens, const std::vector<int>& owner_of_own,
           std::vector<work_table> work, std::vector<exchange_plan> graphs, bool deterministic = false);

    /// The plan of decode of one rank, with the keys where `owner_of_chunks` says. `deterministic`: each chunk is a
    /// part of its own; otherwise all keys of a rank are one part.
    layout(const planning& what, int rank, int ranks, mpi::chunks tokens, std::vector<int> owner_of_chunks,
           bool deterministic, std::vector<exchange_plan> graphs);

private:
    friend layout detail::plan(context& world, const planning& what, std::span<const detail::graph_to_plan> graphs,
                               const attune::options& how);
    std::uint64_t take_positions();
    void choose(const std::vector<int>& owner_of_own, std::span<const work_table> work);
    void plan_heads(std::vector<work_table> work);
    void plan_stages(const work_table& work, exchange_plan& graph);

    planning made_for_;
    int rank_, ranks_;
    mpi::chunks chunks_;
    arrangement chosen_{};
    std::vector<int> owner_, part_owner_;
    std::vector<std::int32_t> positions_;
    std::vector<exchange_plan> graphs_;
    std::uint64_t hash_{};
    bool deterministic_{};
    std::vector<run_of_keys> group_;
    std::shared_ptr<const layout> of_same_heads_;
    int apart_ = 1, part_ = 0;  // of a layout of ranks with the same heads: their places in the world
};

namespace detail {

/// What a rank receives, stage by stage: `stages_of`, with the rows of the ranks that have it.
std::vector<stage> stages_with_runs(int rank, std::span<const std::uint32_t> units, const chunks_of_ranks& by_rank,
                                    const chunks& tokens, int most, int from = -1);

/// The rows of the rank that has the query chunks `own`, from the first to the last that sees any of the key chunks.
std::pair<std::int64_t, std::int64_t> first_and_count_of_rows(std::span<const int> own, std::span<const int> keys,
                                                              const work_table& work, const chunks& tokens);

/// The number of stages of fixed positions, and the work and the messages of a rank in each of them.
int count_of_fixed_stages(std::int64_t tokens);
std::vector<stage> fixed_stages(int rank, std::span<const std::uint32_t> units, const chunks_of_ranks& by_rank,
                                const chunks& tokens, int count);

/// The options that all ranks must have alike: those that decide which kernel runs, and how it computes.
void state(statement& mine, const attune::options& how);

struct graph_to_plan {
    const kernel_table& table;
    std::vector<named_argument> given;  ///< that decide what is visible
};

template <const auto& Graph, class... Arguments> graph_to_plan to_plan(const Arguments&... arguments) {
    graph_to_plan made{attune::detail::table_of<Graph>(), {}};
    if (made.table.version != kernel_table_version) return made;  // all ranks refuse it, when they agree on the plan
    [[maybe_unused]] const auto enter = [&]<class Argument>(const Argument& argument) {
        if constexpr (!attune::detail::is_options<Argument>)
            for (const input_declaration& input : made.table.graph.inputs)
                if (input.name == Argument::label) made.given.push_back(attune::detail::named(argument));
    };
    (enter(arguments), ...);
    return made;
}

/// Refuses an argument that no graph has: the plan would be made without it.
template <class Argument> void check_is_input(const Argument&, std::span<const graph_to_plan> graphs) {
    if constexpr (!attune::detail::is_options<Argument>) {
        for (const graph_to_plan& graph : graphs) {
            if (graph.table.version != kernel_table_version) return;
            for (const input_declaration& input : graph.table.graph.inputs)
                if (input.name == Argument::label) return;
        }
        attune::detail::fail("inputs of the graphs that are planned", Argument::label,
                             "what their masks depend on, by its name in the formula");
    }
}

}  // namespace detail

/// A layout for the calls of some shards. All ranks take part: the kernels' own blocks say which keys are visible to
/// whom, and each rank asks about its part. Arguments are the inputs on which the masks depend, of all tokens and on
/// each rank; others need not be passed. An argument that none of the graphs has is refused. With `what.queries` it is
/// a plan of decode, for which no kernel is asked, and which takes any values of its inputs.
template <const auto&... Graphs, class... Arguments>
layout plan(context& world, const planning& what, const Arguments&... arguments) {
    static_assert(sizeof...(Graphs) > 0, "attune: a plan is made for graphs: plan<my::alibi_shard>(world, ...)");
    attune::options how{};
    [[maybe_unused]] const auto find = [&]<class Argument>(const Argument& argument) {
        if constexpr (attune::detail::is_options<Argument>) how = argument;
    };
    (find(arguments), ...);
    const detail::graph_to_plan graphs[] = {detail::to_plan<Graphs>(arguments...)...};
    (detail::check_is_input(arguments, graphs), ...);
    return detail::plan(world, what, graphs, how);
}

}  // namespace attune::mpi
