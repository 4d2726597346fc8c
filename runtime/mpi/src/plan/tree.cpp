#include <attune/mpi/tree.hpp>

#include <algorithm>
#include <variant>

namespace attune::mpi {

std::int64_t tree::messages_sent() const {
    return std::ssize(received) + (sent && !sent->branches.empty() ? 1 : 0);  // the whole, and what is joined further
}
std::int64_t tree::messages_received() const {
    return (sent ? 1 : 0) + std::ranges::count_if(received, [](const message& each) { return !each.branches.empty(); });
}
std::int64_t tree::states_sent() const { return std::ssize(received) + (sent ? std::ssize(sent->branches) : 0); }
std::int64_t tree::states_received() const {
    std::int64_t all = sent ? 1 : 0;
    for (const message& each : received) all += std::ssize(each.branches);
    return all;
}

namespace detail {
namespace {

/// What is left of the parts of the ranks first .. last - 1 when all that can be joined among them is.
std::vector<branch> left_of(std::span<const int> owner, int first, int last) {
    using nothing = std::monostate;
    const int parts = static_cast<int>(owner.size());
    waiting_states<nothing> waiting(parts);
    for (int part = 0; part < parts; ++part)
        if (const int rank = owner[static_cast<std::size_t>(part)]; rank >= first && rank < last)
            waiting.add({0, part}, {}, [](nothing, nothing) { return nothing(); });
    std::vector<branch> left;
    for (const auto& [begin, state] : waiting.all()) left.push_back(state.first);
    return left;
}

}  // namespace

tree tree_of(int rank, int ranks, std::span<const int> owner) {
    tree made{.parts = static_cast<int>(owner.size())};
    for (int part = 0; part < made.parts; ++part)
        if (owner[static_cast<std::size_t>(part)] == rank) made.own.push_back(part);
    for (int step = 1; step < ranks; step *= 2) {
        if (rank % (2 * step) != 0) {
            made.sent = tree::message{rank - step, left_of(owner, rank, std::min(rank + step, ranks))};
            break;
        }
        if (rank + step < ranks)
            made.received.push_back({rank + step, left_of(owner, rank + step, std::min(rank + 2 * step, ranks))});
    }
    return made;
}

}  // namespace detail
}  // namespace attune::mpi
