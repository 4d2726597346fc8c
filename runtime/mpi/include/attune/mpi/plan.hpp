#pragma once
#include <attune/mpi/context.hpp>
#include <attune/mpi/cost.hpp>
#include <attune/mpi/tree.hpp>
#include <attune/runtime/error.hpp>
#include <attune/runtime/run.hpp>

#include <cstdint>
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
    int rank;  ///< that has them, or of what is sent: that needs them
    std::int64_t first, count;
    std::int64_t to = 0;  ///< in a stage of fixed positions: its row there
    bool operator==(const run_of_keys&) const = default;
};

/// What one rank receives at once, and then computes with.
struct stage {
    std::vector<int> chunks;
    std::vector<run_of_keys> runs;
    std::int64_t tokens{};  ///< that are received

    // Where results do not depend on the ranks: keys of these positions, whoever has them. A row that is neither
    // received nor this rank's own is hidden from all of its queries, and holds anything.
    std::int64_t first = 0, keys = 0;
    std::vector<run_of_keys> own{};
    bool is_empty() const { return runs.empty() && own.empty(); }
};

/// What one call of a graph computes and exchanges.
struct exchange_plan {
    std::string variant;
    std::uint64_t fingerprint{};
    std::vector<stage> stages;                       ///< of this rank, after that of its own keys where these are one
    std::vector<std::pair<int, run_of_keys>> sends;  ///< with their stage, in the order in which they are sent
    cost predicted;
    std::vector<std::pair<arrangement, cost>> considered;  ///< what was asked of the model
    double work{}, all_work{};                             ///< multiplications and additions, of this rank and of all
    detail::bytes_of_token bytes;
    std::vector<std::pair<std::string_view, std::uint64_t>> decided_by;  ///< inputs, with a hash of their values here
    int travellers{};  ///< inputs whose rows are sent, each by messages of its own

    // Of decode, where keys stay and states travel.
    tree joins;
    std::vector<run_of_keys> parts;  ///< rows of this rank for each of joins.own
    std::int64_t state_bytes{};      ///< of all outputs of all queries
    std::int64_t value_depth{};

    std::int64_t tokens_received() const;
    std::int64_t tokens_sent() const;
    std::int64_t bytes_received() const;
    std::int64_t bytes_sent() const;
    std::int64_t messages_received() const;
    std::int64_t messages_sent() const;
};

/// What a plan is, in words: `layout.explain().text()`.
struct plan_explanation {
    std::string sentences;
    const std::string& text() const { return sentences; }
};

/// Which tokens a rank has, and what it sends and receives in the calls of some graphs. The same on every rank.
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
    /// part of its own; otherwise what a rank has is one.
    layout(const planning& what, int rank, int ranks, mpi::chunks tokens, std::vector<int> owner_of_chunks,
           bool deterministic, std::vector<exchange_plan> graphs);

private:
    friend layout detail::plan(context& world, const planning& what, std::span<const detail::graph_to_plan> graphs,
                               const attune::options& how);
    std::uint64_t take_positions();
    void choose(const std::vector<int>& owner_of_own, std::span<const work_table> work);
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
};

namespace detail {

/// What a rank receives, stage by stage: `stages_of`, with the rows of the ranks that have it.
std::vector<stage> stages_with_runs(int rank, std::span<const std::uint32_t> units, const chunks_of_ranks& by_rank,
                                    const chunks& tokens, int most, int from = -1);

/// The number of stages of fixed positions, and what a rank computes and receives in each of them.
int count_of_fixed_stages(std::int64_t tokens);
std::vector<stage> fixed_stages(int rank, std::span<const std::uint32_t> units, const chunks_of_ranks& by_rank,
                                const chunks& tokens, int count);

/// Of what travels with a token, and of the results of one.
bytes_of_token bytes_of(const graph_ir& shard, const planning& of, std::span<const named_argument> given);

/// What all ranks must have alike of a call's options: what decides which kernel runs, and how it computes.
void state(statement& mine, const attune::options& how);

struct graph_to_plan {
    const kernel_table& table;
    std::vector<named_argument> given;  ///< that decide what is visible
};

template <const auto& Graph, class... Arguments> graph_to_plan to_plan(const Arguments&... arguments) {
    graph_to_plan made{attune::detail::table_of<Graph>(), {}};
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
        for (const graph_to_plan& graph : graphs)
            for (const input_declaration& input : graph.table.graph.inputs)
                if (input.name == Argument::label) return;
        attune::detail::fail("inputs of the graphs that are planned", Argument::label,
                             "what their masks depend on, by its name in the formula");
    }
}

}  // namespace detail

/// A layout for the calls of some shards, in which all ranks take part: what is visible to whom is asked of the
/// kernels' own blocks, each rank asking for its part. Arguments are the inputs on which the masks depend, of all
/// tokens and on each rank; others need not be passed. An argument that none of the graphs has is refused. With
/// `what.queries` it is a plan of decode, for which no kernel is asked, and which takes any values of its inputs.
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
