#include <attune/mpi/stages.hpp>

#include <algorithm>
#include <limits>

namespace attune::mpi::detail {

namespace {
/// Units say who needs what: a sum that wrapped around to 0 would leave keys out.
std::uint32_t added(std::uint32_t a, std::uint32_t b) {
    return b > std::numeric_limits<std::uint32_t>::max() - a ? std::numeric_limits<std::uint32_t>::max() : a + b;
}
}  // namespace

rank_work::rank_work(const work_table& table, const std::vector<int>& owner, int ranks)
    : count_(static_cast<std::size_t>(table.count)), units_(static_cast<std::size_t>(ranks) * count_) {
    for (int q = 0; q < table.count; ++q) {
        const auto row = table.row(q);
        std::uint32_t* const to = units_.data() + static_cast<std::size_t>(owner[static_cast<std::size_t>(q)]) * count_;
        for (std::size_t k = 0; k < count_; ++k) to[k] = added(to[k], row[k]);
    }
}

std::vector<std::vector<int>> stages_of(int rank, std::span<const std::uint32_t> units, const std::vector<int>& owner,
                                        int ranks, int most) {
    const auto at = [](int i) { return static_cast<std::size_t>(i); };
    std::vector<int> needed;
    std::uint64_t all = 0;
    for (int c = 0; c < static_cast<int>(units.size()); ++c)
        if (units[at(c)] != 0 && owner[at(c)] != rank) needed.push_back(c), all += units[at(c)];
    const auto distance = [&](int c) { return (owner[at(c)] - rank + ranks) % ranks; };
    std::ranges::stable_sort(needed, {}, distance);
    std::vector<std::vector<int>> stages;
    std::uint64_t before = 0, last = static_cast<std::uint64_t>(most);
    for (const int c : needed) {
        const std::uint64_t stage = before * static_cast<std::uint64_t>(most) / all;
        if (stage != last) stages.emplace_back();
        stages.back().push_back(c);
        last = stage, before += units[at(c)];
    }
    return stages;
}

}  // namespace attune::mpi::detail
