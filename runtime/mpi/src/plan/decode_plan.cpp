#include "base/text.hpp"
#include "execution/threads.hpp"
#include "mpi/src/plan/planning_parts.hpp"

#include <attune/mpi/inputs.hpp>
#include <attune/mpi/states.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace attune::mpi {

namespace {

using attune::detail::fail, attune::detail::say;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Parts that do not depend on the ranks: more are balanced better on many ranks, and each is a call of the kernel.
constexpr std::int64_t most_parts = 128, fewest_keys = 256, rounded_to = 64;

std::int64_t keys_of_part(std::int64_t tokens) {
    const std::int64_t even = (tokens + most_parts - 1) / most_parts;
    return std::max(fewest_keys, (even + rounded_to - 1) / rounded_to * rounded_to);
}

chunks fixed_parts(std::int64_t tokens) {
    chunks made;
    made.order.resize(at(tokens));
    std::iota(made.order.begin(), made.order.end(), 0);
    const std::int64_t keys = keys_of_part(tokens);
    for (std::int64_t end = keys; end < tokens + keys; end += keys) made.begin.push_back(std::min(end, tokens));
    return made;
}

/// The model: a rank reads its keys, and then states go down the tree and the results up.
cost cost_of(const layout& plan, const exchange_plan& graph) {
    const rates& speed = plan.made_for().speed;
    std::vector<double> keys(at(plan.ranks()));
    for (int c = 0; c < plan.chunks().count(); ++c)
        keys[at(plan.owners()[at(c)])] += static_cast<double>(plan.chunks().tokens(c));
    const double tokens = static_cast<double>(plan.chunks().tokens()), most = std::ranges::max(keys);
    const double message = speed.latency + static_cast<double>(graph.state_bytes) / speed.bytes;
    cost made;
    made.computing = most * graph.bytes.keys / speed.read;
    made.sending = 2 * std::ceil(std::log2(plan.ranks())) * message;
    made.seconds = made.computing + made.sending + 2 * speed.latency * std::log2(plan.ranks());
    made.balance = tokens > 0 ? most / (tokens / plan.ranks()) : 1;
    for (int r = 0; r < plan.ranks(); ++r)
        made.received += static_cast<double>(graph.state_bytes *
                                             detail::tree_of(r, plan.ranks(), plan.part_owners()).states_received());
    made.ring = tokens * (plan.ranks() - 1) * graph.bytes.keys;
    return made;
}

}  // namespace

layout::layout(const planning& what, int rank, int ranks, mpi::chunks tokens, std::vector<int> owner_of_chunks,
               bool deterministic, std::vector<exchange_plan> graphs)
    : made_for_(what),
      rank_(rank),
      ranks_(ranks),
      chunks_(std::move(tokens)),
      chosen_(what.layout == arrangement::best ? deterministic ? arrangement::contiguous : arrangement::striped
                                               : what.layout),
      owner_(std::move(owner_of_chunks)),
      graphs_(std::move(graphs)),
      deterministic_(deterministic) {
    made_for_.positions = {}, made_for_.weights = {};
    if (owner_.empty()) {
        const work_table no_work{chunks_.count(), 0, {}};
        owner_ = detail::owners(chosen_, std::span(&no_work, 1), ranks_);
    }
    detail::hash_of_integers all{take_positions()};
    std::vector<run_of_keys> parts;
    if (deterministic_)
        part_owner_ = owner_;
    else
        for (int r = 0; r < ranks_; ++r)
            if (std::ranges::find(owner_, r) != owner_.end()) part_owner_.push_back(r);
    if (part_owner_.empty()) part_owner_.push_back(0);  // no keys at all
    const std::int64_t rows = std::ssize(positions_);
    std::int64_t first = 0;
    for (std::size_t part = 0; part < part_owner_.size(); ++part) {
        if (part_owner_[part] != rank_) continue;
        const std::int64_t count = deterministic_ && rows > 0 ? chunks_.tokens(static_cast<int>(part)) : rows;
        parts.push_back({rank_, first, count});
        first += count;
    }
    all.add(static_cast<std::uint64_t>(made_for_.queries)), all.add(deterministic_);
    for (exchange_plan& graph : graphs_) {
        graph.joins = detail::tree_of(rank_, ranks_, part_owner_);
        graph.parts = parts;
        all.add(graph.fingerprint), all.add(static_cast<std::uint64_t>(graph.state_bytes));
        graph.predicted = cost_of(*this, graph);
        graph.considered = {{chosen_, graph.predicted}};
    }
    hash_ = all.value;
}

namespace detail {
namespace {

void check_layout(const planning& what) {
    using enum arrangement;
    for (const arrangement each : {best, contiguous, zigzag, striped, own})
        if (what.layout == each) return;
    fail("a layout of decode that is contiguous, zigzag, striped or the caller's own",
         std::string(name_of(what.layout)), "leaving it out");
}

/// The caller's own keys, where no bit is to depend on the ranks: a part lies on one rank.
std::pair<chunks, std::vector<int>> own_parts(std::span<const std::vector<std::int32_t>> of_ranks, chunks parts) {
    std::vector<int> owner(at(parts.tokens())), made(at(parts.count()));
    bool ascending = true;
    for (std::size_t r = 0; r < of_ranks.size(); ++r) {
        ascending = ascending && std::ranges::is_sorted(of_ranks[r]);
        for (const std::int32_t position : of_ranks[r]) owner[at(position)] = static_cast<int>(r);
    }
    for (int c = 0; c < parts.count(); ++c) {
        const auto keys = parts.positions(c);
        made[at(c)] = owner[at(keys.front())];
        for (const std::int32_t position : keys)
            if (!ascending || owner[at(position)] != made[at(c)])
                fail(say("ascending positions for options::deterministic, and each ", keys_of_part(parts.tokens()),
                         " from a multiple of that on on one rank"),
                     ascending ? say(position, " on ", owner[at(position)], " and ", keys.front(), " on ", made[at(c)])
                               : "others",
                     "the layout that the plan finds, or options::deterministic of false");
    }
    return {std::move(parts), std::move(made)};
}

std::int64_t state_bytes(const graph_ir& shard, const planning& of) {
    return output_states(shard, of.batches * of.heads * of.queries, of.value_depth).bytes();
}

}  // namespace

layout plan_of_decode(context& world, const planning& what, std::span<const graph_to_plan> graphs,
                      const attune::options& how) {
    std::vector<exchange_plan> exchanges;
    world.agree("plan", [&](statement& mine) {
        check(what, graphs);
        check_layout(what);
        if (what.head_parts > 1)
            fail("no head_parts in a plan of decode, where keys stay", say(what.head_parts), "leaving them out");
        check_gradients(graphs, "variants in a plan of decode", "a plan without .queries for gradients");
        state(mine, what, graphs);
        state(mine, how);
        for (const graph_to_plan& each : graphs) {
            planning of = what;
            kernel_for(each.table, of, how);
            check_tensors(each.table.graph, each.given, what.tokens);
            exchange_plan& made = exchanges.emplace_back(exchange_of(each, of));
            made.value_depth = of.value_depth, made.state_bytes = state_bytes(each.table.graph, of);
            mine.add(say("bytes of a state of ", each.table.variant), say(made.state_bytes),
                     "kernels of one value depth on all ranks");
        }
    });
    const bool deterministic = attune::detail::is_deterministic(how);
    chunks tokens = deterministic ? fixed_parts(what.tokens) : cut(what.tokens, world.size());
    std::vector<int> owner;
    if (what.layout == arrangement::own) {
        const auto all = own_positions(world, what);
        std::tie(tokens, owner) = deterministic ? own_parts(all, std::move(tokens)) : cut(all);
    }
    return {what, world.rank(), world.size(), std::move(tokens), std::move(owner), deterministic, std::move(exchanges)};
}

}  // namespace detail
}  // namespace attune::mpi
