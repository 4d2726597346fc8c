#pragma once
#include <attune/mpi/layouts.hpp>

#include <vector>

namespace attune::mpi::detail {

/// The work of each rank with each chunk of keys, in units of the table.
struct rank_work {
    rank_work(const work_table& table, const std::vector<int>& owner, int ranks);

    std::span<const std::uint32_t> row(int rank) const {
        return std::span(units_).subspan(static_cast<std::size_t>(rank) * count_, count_);
    }

private:
    std::size_t count_;
    std::vector<std::uint32_t> units_;  // (rank, key chunk)
};

/// The chunks of others that a rank needs, in at most `most` stages of equal work. Those of the rank after it come
/// first, and so on around, so that no two ranks begin with the same.
std::vector<std::vector<int>> stages_of(int rank, std::span<const std::uint32_t> units, const std::vector<int>& owner,
                                        int ranks, int most);

inline constexpr int most_stages = 8;

}  // namespace attune::mpi::detail
