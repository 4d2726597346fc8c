#include <attune/mpi/stages.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

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

chunks_of_ranks::chunks_of_ranks(const std::vector<int>& owner, int ranks)
    : first_(static_cast<std::size_t>(ranks) + 1), chunks_(owner.size()) {
    for (const int rank : owner) ++first_[static_cast<std::size_t>(rank) + 1];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (std::size_t c = 0; c < owner.size(); ++c)
        chunks_[next[static_cast<std::size_t>(owner[c])]++] = static_cast<int>(c);
}

std::vector<std::vector<int>> stages_of(int rank, std::span<const std::uint32_t> units, const chunks_of_ranks& chunks,
                                        int most, int from) {
    const auto units_of = [&](int chunk) -> std::uint64_t { return units[static_cast<std::size_t>(chunk)]; };
    std::uint64_t all = std::accumulate(units.begin(), units.end(), std::uint64_t{});
    for (const int own : chunks.of(rank)) all -= units_of(own);
    std::vector<std::vector<int>> stages;
    std::uint64_t before = 0, last = static_cast<std::uint64_t>(most);
    for (int away = 1; away < chunks.ranks(); ++away) {
        const int owner = (rank + away) % chunks.ranks();
        for (const int c : chunks.of(owner)) {
            if (units_of(c) == 0) continue;
            const std::uint64_t stage = before * static_cast<std::uint64_t>(most) / all;
            if (stage != last) stages.emplace_back();
            if (from < 0 || owner == from) stages.back().push_back(c);
            last = stage, before += units_of(c);
        }
        if (owner == from) break;
    }
    return stages;
}

}  // namespace attune::mpi::detail
