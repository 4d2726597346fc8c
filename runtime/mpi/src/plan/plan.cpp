#include "base/text.hpp"
#include "call/bind/bind.hpp"
#include "execution/threads.hpp"
#include "mpi/src/plan/planning_parts.hpp"

#include <attune/dsl/shard.hpp>
#include <attune/ir/gradient_outputs.hpp>
#include <attune/mpi/inputs.hpp>
#include <attune/mpi/plan.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <tuple>

namespace attune::mpi {

using attune::detail::fail, attune::detail::say;

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

std::int64_t exchange_plan::tokens_received() const {
    std::int64_t all = 0;
    for (const stage& each : stages) all += each.tokens;
    return all;
}
std::int64_t exchange_plan::tokens_sent() const {
    std::int64_t all = 0;
    for (const auto& [stage, run] : sends) all += run.count;
    return all;
}

std::int64_t exchange_plan::bytes_received() const {
    return static_cast<std::int64_t>(bytes.keys) * tokens_received() +
           static_cast<std::int64_t>(bytes.returned) * tokens_sent() + state_bytes * joins.states_received() +
           head_bytes_received;
}
std::int64_t exchange_plan::bytes_sent() const {
    return static_cast<std::int64_t>(bytes.keys) * tokens_sent() +
           static_cast<std::int64_t>(bytes.returned) * tokens_received() + state_bytes * joins.states_sent() +
           head_bytes_sent;
}

std::int64_t exchange_plan::runs_received() const {
    std::int64_t all = 0;
    for (const stage& each : stages) all += std::ssize(each.runs);
    return all;
}
std::int64_t exchange_plan::messages_sent() const {
    return std::ssize(sends) * travellers + runs_received() * returners + joins.messages_sent() + head_messages;
}
std::int64_t exchange_plan::messages_received() const {
    return runs_received() * travellers + std::ssize(sends) * returners + joins.messages_received() + head_messages;
}

layout::layout(const planning& what, int rank, int ranks, mpi::chunks tokens, const std::vector<int>& owner_of_own,
               std::vector<work_table> work, std::vector<exchange_plan> graphs, bool deterministic)
    : made_for_(what),
      rank_(rank),
      ranks_(ranks),
      chunks_(std::move(tokens)),
      graphs_(std::move(graphs)),
      deterministic_(deterministic) {
    if (deterministic_ && made_for_.stages == 0) made_for_.stages = detail::count_of_fixed_stages(chunks_.tokens());
    made_for_.positions = {}, made_for_.weights = {};
    for (std::size_t g = 0; g < work.size() && !what.weights.empty(); ++g) work[g].calls = what.weights[g];
    choose(owner_of_own, work);

    detail::hash_of_integers all{};
    for (std::size_t g = 0; g < graphs_.size(); ++g) {
        all.add(graphs_[g].fingerprint), all.add(static_cast<std::uint64_t>(graphs_[g].predicted.stages));
        for (const std::uint32_t units : work[g].units) all.add(units);
    }
    if (graphs_[0].predicted.head_parts > 1)
        plan_heads(std::move(work));
    else
        for (std::size_t g = 0; g < graphs_.size(); ++g) plan_stages(work[g], graphs_[g]);
    all.add(take_positions()), all.add(deterministic_);
    hash_ = all.value;
}

/// This rank's; returns a hash of all ranks'.
std::uint64_t layout::take_positions() {
    detail::hash_of_integers all;
    for (int c = 0; c < chunks_.count(); ++c) {
        const auto own = chunks_.positions(c);
        if (owner_[at(c)] == rank_) positions_.insert(positions_.end(), own.begin(), own.end());
        all.add(static_cast<std::uint64_t>(owner_[at(c)]));
        for (const std::int32_t position : own) all.add(static_cast<std::uint64_t>(position));
    }
    return all.value;
}

void layout::plan_stages(const work_table& work, exchange_plan& graph) {
    const detail::rank_work of_ranks(work, owner_, ranks_);
    const detail::chunks_of_ranks by_rank(owner_, ranks_);
    const auto stages_of = [&](int rank, int from) {
        if (deterministic_)
            return detail::fixed_stages(rank, of_ranks.row(rank), by_rank, chunks_, graph.predicted.stages);
        return detail::stages_with_runs(rank, of_ranks.row(rank), by_rank, chunks_, graph.predicted.stages, from);
    };
    graph.stages = stages_of(rank_, -1);
    for (stage& each : graph.stages)
        if (!deterministic_)
            std::tie(each.first_query, each.queries) =
                detail::first_and_count_of_rows(by_rank.of(rank_), each.chunks, work, chunks_);
    // The ranks before this one first: they begin with this rank's keys.
    for (int away = 1; away < ranks_; ++away) {
        const int to = (rank_ - away + ranks_) % ranks_;
        const auto made = stages_of(to, rank_);
        for (std::size_t s = 0; s < made.size(); ++s)
            for (const run_of_keys& each : made[s].runs)
                if (!deterministic_ || each.rank == rank_)
                    graph.sends.emplace_back(static_cast<int>(s), run_of_keys{to, each.first, each.count});
    }
    std::ranges::stable_sort(graph.sends, {}, &std::pair<int, run_of_keys>::first);
    for (int r = 0; r < ranks_; ++r) {
        std::uint64_t units = 0;
        for (const std::uint32_t each : of_ranks.row(r)) units += each;
        graph.all_work += work.flops * static_cast<double>(units);
        if (r == rank_) graph.work = work.flops * static_cast<double>(units);
    }
}

const exchange_plan& layout::of(std::uint64_t fingerprint) const {
    const auto found = std::ranges::find(graphs_, fingerprint, &exchange_plan::fingerprint);
    if (found == graphs_.end()) {
        std::string names;
        for (const exchange_plan& each : graphs_) attune::detail::add_part(names, each.variant);
        fail(say("a call of ", names, ", for which the layout was planned"), "another variant",
             "plan<...>(...) with all variants of the model");
    }
    return *found;
}

namespace detail {

std::vector<stage> stages_with_runs(int rank, std::span<const std::uint32_t> units, const chunks_of_ranks& by_rank,
                                    const chunks& tokens, int most, int from) {
    std::vector<stage> made;
    int owner = from < 0 ? rank : from;
    for (std::vector<int>& needed : stages_of(rank, units, by_rank, most, from)) {
        stage& each = made.emplace_back();
        each.chunks = std::move(needed);
        // Those of one rank follow each other, in the order in which it has them.
        for (std::size_t i = 0; i < each.chunks.size();) {
            while (!std::ranges::binary_search(by_rank.of(owner), each.chunks[i]))
                owner = (owner + 1) % by_rank.ranks();
            std::int64_t place = 0;
            for (const int c : by_rank.of(owner)) {
                const bool is_next = i < each.chunks.size() && each.chunks[i] == c;
                if (is_next && !each.runs.empty() && each.runs.back().rank == owner &&
                    each.runs.back().first + each.runs.back().count == place)
                    each.runs.back().count += tokens.tokens(c);
                else if (is_next)
                    each.runs.push_back({owner, place, tokens.tokens(c)});
                if (is_next) each.tokens += tokens.tokens(c), ++i;
                place += tokens.tokens(c);
            }
        }
    }
    return made;
}

std::pair<std::int64_t, std::int64_t> first_and_count_of_rows(std::span<const int> own, std::span<const int> keys,
                                                              const work_table& work, const chunks& tokens) {
    std::int64_t first = -1, end = 0, row = 0;
    for (const int q : own) {
        const auto units = work.row(q);
        const bool sees = std::ranges::any_of(keys, [&](int k) { return units[at(k)] != 0; });
        if (sees && first < 0) first = row;
        row += tokens.tokens(q);
        if (sees) end = row;
    }
    return first < 0 ? std::pair<std::int64_t, std::int64_t>() : std::pair(first, end - first);
}

std::vector<std::vector<std::int32_t>> own_positions(context& world, const planning& what) {
    std::int64_t most = std::ssize(what.positions);
    const std::vector<std::byte> counts = world.gather(std::as_bytes(std::span(&most, 1)), "numbers of positions");
    std::vector<std::int64_t> of_rank(at(world.size()));
    std::memcpy(of_rank.data(), counts.data(), counts.size());
    most = std::ranges::max(of_rank);
    std::vector<std::int32_t> mine(what.positions.begin(), what.positions.end());
    mine.resize(static_cast<std::size_t>(most));
    const std::vector<std::byte> bytes = world.gather(std::as_bytes(std::span(mine)), "positions");
    std::vector<std::vector<std::int32_t>> all(at(world.size()));
    std::vector<bool> seen(static_cast<std::size_t>(what.tokens));
    for (int r = 0; r < world.size(); ++r) {
        const auto count = static_cast<std::size_t>(of_rank[at(r)]);
        all[at(r)].resize(count);
        if (count) std::memcpy(all[at(r)].data(), bytes.data() + at(r) * static_cast<std::size_t>(most) * 4, count * 4);
        for (const std::int32_t position : all[at(r)]) {
            if (position < 0 || position >= what.tokens || seen[static_cast<std::size_t>(position)])
                fail(say("each position from 0 to ", what.tokens - 1, " on one rank"),
                     say(position, position < 0 || position >= what.tokens ? " on " : " again on ", r),
                     "positions that are together all tokens");
            seen[static_cast<std::size_t>(position)] = true;
        }
    }
    const std::int64_t together = std::accumulate(of_rank.begin(), of_rank.end(), std::int64_t{});
    if (together != what.tokens)
        fail(say("each position from 0 to ", what.tokens - 1, " on one rank"), say(together, " positions"),
             "positions that are together all tokens");
    return all;
}

namespace {

std::string list_of(std::span<const double> numbers) {
    std::string all;
    for (const double each : numbers) all += say(all.empty() ? "" : ", ", exactly(each));
    return all;
}

std::string list_of(const rates& speed) {
    return say("flops ", exactly(speed.flops), ", bytes ", exactly(speed.bytes), ", latency ", exactly(speed.latency),
               ", merged ", exactly(speed.merged), ", read ", exactly(speed.read));
}

/// Checks the numbers by which the model divides and multiplies: with bad ones its choice would mean nothing.
void check_numbers(const rates& speed, std::span<const double> weights) {
    const auto usable = [](double each) { return std::isfinite(each) && each >= 0; };
    if (!usable(speed.flops) || !usable(speed.bytes) || !usable(speed.latency) || !usable(speed.merged) ||
        !usable(speed.read) || speed.bytes == 0 || speed.merged == 0 || speed.read == 0)
        fail("finite rates of at least 0, and bytes, merged and read above 0", list_of(speed),
             "what a rank does in a second, or leaving them out");
    if (!std::ranges::all_of(weights, usable) ||
        (!weights.empty() && std::ranges::all_of(weights, [](double each) { return each == 0; })))
        fail("finite weights of at least 0, and one above 0", list_of(weights), "the calls of each graph");
}

/// Kernels for few queries compute with other bits, and how many a rank has depends on the ranks. Alike on all ranks.
void check_kernels(const layout& made, std::span<const graph_to_plan> graphs, const attune::options& how) {
    std::vector<std::int64_t> rows(at(made.ranks()));
    for (int c = 0; c < made.chunks().count(); ++c) rows[at(made.owners()[at(c)])] += made.chunks().tokens(c);
    for (const graph_to_plan& each : graphs) {
        planning of = made.made_for();
        const kernel& like = kernel_for(each.table, of, how);
        const kernel& of_all = kernel_of(each.table, like, of.tokens, how);
        for (int r = 0; r < made.ranks(); ++r)
            if (rows[at(r)] > 0 && &kernel_of(each.table, like, rows[at(r)], how) != &of_all)
                fail(say("tokens of each rank for the kernel that computes all of them, so that options::deterministic "
                         "gives the bits of one rank"),
                     say(rows[at(r)], " on rank ", r, ", for which another kernel is"), "fewer ranks");
    }
}

/// All rows of a graph's table, of which each rank has asked for an equal part.
work_table gathered(context& world, work_table mine, int rows) {
    mine.units.resize(at(rows) * at(mine.count));
    const std::vector<std::byte> all = world.gather(std::as_bytes(std::span(mine.units)), "visits of chunks");
    mine.units.resize(at(mine.count) * at(mine.count));
    if (!mine.units.empty()) std::memcpy(mine.units.data(), all.data(), mine.units.size() * sizeof(std::uint32_t));
    return mine;
}

}  // namespace

void check(const planning& what, std::span<const graph_to_plan> graphs) {
    for (const graph_to_plan& each : graphs) attune::detail::check_version(each.table);
    if (what.batches < 1 || what.heads < 1 || what.key_heads < 1 || what.heads % what.key_heads != 0)
        fail("batch elements, and heads that share key heads evenly",
             say("batches ", what.batches, ", heads ", what.heads, ", key_heads ", what.key_heads),
             "the extents of the whole q and k");
    if (what.tokens < 0 || what.tokens > std::numeric_limits<std::int32_t>::max())
        fail("tokens of all ranks together, at most 2147483647", say(what.tokens), "{.tokens = ...}");
    if (!what.positions.empty() && what.layout != arrangement::own)
        fail("no positions, or those of a layout of your own", say(what.positions.size(), " positions"),
             ".layout = arrangement::own");
    if (what.head_parts < 0) fail("ranks that share heads, or 0", say(what.head_parts), "leaving .head_parts out");
    if (what.head_parts > 1 && what.layout == arrangement::own)
        fail("positions that the plan finds where ranks share heads", std::string(name_of(what.layout)),
             ".head_parts = 1");
    if (what.queries < 0) fail("queries of decode, or 0 for those of the tokens", say(what.queries), "{.queries = 1}");
    if (what.queries > 0 && what.stages > 0)
        fail("no stages in a plan of decode, where no keys are sent", say(what.stages), "leaving them out");
    if (what.stages < 0 || what.stages > most_stages)
        fail(say("0 to ", most_stages, " stages"), say(what.stages), "0, for as many as the cost model says");
    if (!what.weights.empty() && what.weights.size() != graphs.size())
        fail(say("a weight for each of ", graphs.size(), " graphs"), say(what.weights.size()), "the calls of each");
    check_numbers(what.speed, what.weights);
}

void state(statement& mine, const planning& what, std::span<const graph_to_plan> graphs) {
    const std::int64_t shape[] = {what.batches, what.heads, what.key_heads, what.tokens};
    mine.add("batches, heads, key heads and tokens", attune::detail::list_of(shape), "the same plan on all ranks");
    if (what.queries > 0) mine.add("number of queries", say(what.queries), "the same plan on all ranks");
    mine.add("layout", say(name_of(what.layout), ", stages ", what.stages), "the same plan on all ranks");
    if (what.head_parts != 0) mine.add("number of head_parts", say(what.head_parts), "the same plan on all ranks");
    mine.add("depth, value depth and element", say(what.depth, ", ", what.value_depth, " and ", name_of(what.element)),
             "the same plan on all ranks");
    mine.add("rates", list_of(what.speed), "the same rates on all ranks");
    for (std::size_t w = 0; w < what.weights.size(); ++w)
        mine.add(say("weight ", w), exactly(what.weights[w]), "the same weights");
    for (std::size_t g = 0; const graph_to_plan& each : graphs)
        mine.add(say("variant ", g++), say(each.table.variant, " ", each.table.graph.fingerprint),
                 "one build on all ranks");
}

void state(statement& mine, const attune::options& how) {
    std::string_view by;
    const std::string_view target = attune::detail::forced_target(how, by);
    mine.add("options::target", target.empty() ? "none" : target, "the same options and ATTUNE_TARGET on all ranks");
    mine.add("options::deterministic", attune::detail::is_deterministic(how) ? "true" : "false",
             "the same options and ATTUNE_DETERMINISTIC on all ranks");
}

exchange_plan exchange_of(const graph_to_plan& each, const planning& of) {
    const graph_ir& graph = each.table.graph;
    exchange_plan made;
    made.variant = each.table.variant, made.fingerprint = graph.fingerprint;
    made.bytes = bytes_of(graph, of, each.given), made.bytes_without_heads = bytes_without_heads(graph, of, each.given);
    made.rows_out = static_cast<int>(graph.outputs.size());
    for (const input_declaration& input : graph.inputs)
        made.rows_in += role_of(graph, input) == role::travels || role_of(graph, input) == role::own_rows;
    for (const input_declaration& input : graph.inputs) made.travellers += role_of(graph, input) == role::travels;
    made.makes_gradients = makes_gradients(graph), made.heads_differ = deciders_of(graph, true).by_head;
    if (!made.makes_gradients) return made;
    for (const output_declaration& output : graph.outputs)
        made.returners += role_of(graph, tensor_of_gradient(graph, output)) == role::travels;
    return made;
}

void check_gradients(std::span<const graph_to_plan> graphs, std::string_view expected, std::string_view attempt) {
    for (const graph_to_plan& each : graphs)
        if (makes_gradients(each.table.graph)) fail(expected, each.table.variant, attempt);
}

layout plan(context& world, const planning& asked, std::span<const graph_to_plan> graphs, const attune::options& how) {
    if (asked.queries != 0) return plan_of_decode(world, asked, graphs, how);
    planning what = asked;
    world.agree("plan", [&](statement& mine) {
        check(what, graphs);
        state(mine, what, graphs);
        state(mine, how);
    });
    if (attune::detail::is_deterministic(how))
        check_gradients(graphs,
                        "no gradients in a plan with options::deterministic, which keeps parts of the keys in one "
                        "order and not their gradients",
                        "a plan of them without it; on the same ranks two calls have the same bits");
    if (what.layout == arrangement::own && attune::detail::is_deterministic(how))
        fail("a layout that the plan finds, for options::deterministic over many queries",
             std::string(name_of(what.layout)), "leaving .layout and .positions out");
    auto [tokens, owner] = what.layout == arrangement::own
                               ? cut(own_positions(world, what))
                               : std::pair(cut(what.tokens, world.size()), std::vector<int>());
    const int count = tokens.count(), rows = (count + world.size() - 1) / world.size(),
              first = std::min(count, world.rank() * rows), last = std::min(count, first + rows);
    std::vector<work_table> parts;
    std::vector<exchange_plan> exchanges;
    world.agree("plan", [&](statement& mine) {
        for (const graph_to_plan& each : graphs) {
            planning of = what;
            kernel_for(each.table, of, how);
            check_tensors(each.table.graph, each.given, what.tokens);
            parts.push_back(work_of(each.table, of, each.given, tokens, first, last, how));
            mine.add(say("work of a block of ", each.table.variant), exactly(parts.back().flops),
                     "kernels of one target on all ranks: ATTUNE_TARGET");
            exchanges.push_back(exchange_of(each, of));
            check_head_parts(what, exchanges.back(), world.size(), attune::detail::is_deterministic(how));
        }
    });
    for (work_table& part : parts) part = gathered(world, std::move(part), rows);
    if (what.speed.flops == 0) {  // as fast as the rank with the fewest threads
        const double own = flops_of_a_thread * (how.threads > 0 ? how.threads : threads());
        std::vector<double> all(at(world.size()));
        const auto bytes = world.gather(std::as_bytes(std::span(&own, 1)), "numbers of threads");
        std::memcpy(all.data(), bytes.data(), bytes.size());
        what.speed.flops = std::ranges::min(all);
    }
    const bool deterministic = attune::detail::is_deterministic(how);
    layout made(what, world.rank(), world.size(), std::move(tokens), owner, std::move(parts), std::move(exchanges),
                deterministic);
    if (deterministic) check_kernels(made, graphs, how);
    for (std::size_t g = 0; g < graphs.size(); ++g)
        made.graphs_[g].decided_by = decided_by(graphs[g].table.graph, graphs[g].given, made.positions());
    return made;
}

}  // namespace detail
}  // namespace attune::mpi
