#include "base/text.hpp"
#include "mpi/src/plan/planning_parts.hpp"

#include <attune/mpi/plan.hpp>

#include <algorithm>
#include <array>

namespace attune::mpi {
namespace {

using attune::detail::fail, attune::detail::say;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Simpler ones first: another has to be faster by more than the model can know.
constexpr std::array candidates{arrangement::contiguous, arrangement::zigzag,   arrangement::striped,
                                arrangement::documents,  arrangement::affinity, arrangement::greedy,
                                arrangement::ports};
constexpr double faster = 0.99;

bool divides(int parts, const planning& what, int ranks) {
    return ranks % parts == 0 && what.heads % parts == 0 && what.key_heads % parts == 0;
}

}  // namespace

void layout::choose(const std::vector<int>& owner_of_own, std::span<const work_table> work) {
    double least = 0;
    const auto consider = [&](arrangement each, int parts) {
        const int ranks = ranks_ / parts;
        std::vector<int> owner = each == arrangement::own ? owner_of_own : detail::owners(each, work, ranks);
        std::vector<cost> costs;
        double seconds = 0;
        for (std::size_t g = 0; g < graphs_.size(); ++g) {
            exchange_plan& graph = graphs_[g];
            costs.push_back(
                parts == 1
                    ? detail::cost_of(work[g], chunks_, owner, ranks, graph.bytes, made_for_.speed, made_for_.stages)
                    : detail::cost_of_head_parts(parts, work[g], chunks_, owner, ranks,
                                                 graph.bytes.of_part(parts, graph.bytes_without_heads), made_for_.speed,
                                                 made_for_.stages));
            graph.considered.emplace_back(each, costs.back());
            seconds += work[g].calls * costs.back().seconds;
        }
        if (!owner_.empty() && seconds >= faster * least) return;
        least = seconds, chosen_ = each, owner_ = std::move(owner);
        for (std::size_t g = 0; g < graphs_.size(); ++g) graphs_[g].predicted = costs[g];
    };
    const auto consider_with = [&](int parts) {
        if (made_for_.layout != arrangement::best) return consider(made_for_.layout, parts);
        for (const arrangement each : candidates)
            if (each == candidates[0] || parts < ranks_ || parts == 1)
                consider(each, parts);  // of one group all are the same
    };
    consider_with(std::max(1, made_for_.head_parts));
    // If heads see different keys, the work of a share of them is unknown.
    const bool apart = made_for_.head_parts == 0 && !deterministic_ && made_for_.layout != arrangement::own &&
                       std::ranges::none_of(graphs_, [](const exchange_plan& each) {
                           return each.makes_gradients || each.heads_differ;
                       });
    for (int parts = 2; apart && parts <= ranks_; ++parts)
        if (divides(parts, made_for_, ranks_)) consider_with(parts);
}

/// Ranks that share heads follow each other. Each has an equal part of the chunks that they have together.
void layout::plan_heads(std::vector<work_table> work) {
    const int parts = graphs_[0].predicted.head_parts, group = rank_ / parts;
    planning of = made_for_;
    of.head_parts = 1, of.heads /= parts, of.key_heads /= parts, of.layout = chosen_;
    std::vector<exchange_plan> shares = graphs_;
    for (exchange_plan& each : shares)
        each.bytes = each.bytes.of_part(parts, each.bytes_without_heads), each.considered.clear();
    for (work_table& each : work) each.flops /= parts;
    auto same_heads =
        std::make_shared<layout>(of, group, ranks_ / parts, chunks_, owner_, std::move(work), std::move(shares));
    same_heads->apart_ = parts, same_heads->part_ = rank_ % parts;

    const detail::chunks_of_ranks by_group(owner_, ranks_ / parts);
    group_.resize(at(parts));
    for (int m = 0; m < parts; ++m) group_[at(m)] = {group * parts + m, 0, 0};
    for (int g = 0; g < ranks_ / parts; ++g) {
        const std::span<const int> own = by_group.of(g);
        for (std::size_t i = 0; i < own.size(); ++i) {
            const auto member = static_cast<int>(i * at(parts) / own.size());
            owner_[at(own[i])] = g * parts + member;
            if (g == group) group_[at(member)].count += chunks_.tokens(own[i]);
        }
    }
    for (int m = 1; m < parts; ++m) group_[at(m)].first = group_[at(m - 1)].first + group_[at(m - 1)].count;
    const std::int64_t own = group_[at(rank_ % parts)].count,
                       others = static_cast<std::int64_t>(same_heads->positions().size()) - own;
    for (std::size_t g = 0; g < graphs_.size(); ++g) {
        exchange_plan& graph = graphs_[g];
        const exchange_plan& share = same_heads->graphs_[g];
        graph.bytes = share.bytes, graph.stages = share.stages, graph.sends = share.sends;
        graph.work = share.work, graph.all_work = share.all_work * parts;
        const auto in = static_cast<std::int64_t>(share.bytes.rows_in),
                   out = static_cast<std::int64_t>(share.bytes.rows_out);
        graph.head_bytes_sent = (parts - 1) * own * in + others * out;
        graph.head_bytes_received = others * in + (parts - 1) * own * out;
        graph.head_messages = (parts - 1) * (graph.rows_in + graph.rows_out);
    }
    of_same_heads_ = std::move(same_heads);
}

namespace detail {

void check_head_parts(const planning& what, const exchange_plan& graph, int ranks, bool deterministic) {
    if (what.head_parts <= 1) return;
    constexpr std::string_view together = ".head_parts = 1";
    if (graph.makes_gradients)
        fail("variants where ranks share heads", say(graph.variant, ", which makes gradients"), together);
    if (deterministic) fail("options::deterministic or head_parts", "both", together);
    if (!divides(what.head_parts, what, ranks))
        fail(say("ranks, heads and key heads that ", what.head_parts, " head_parts divide evenly"),
             say(ranks, ", ", what.heads, " and ", what.key_heads), "another number of them");
}

}  // namespace detail
}  // namespace attune::mpi
