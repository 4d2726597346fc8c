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

/// The chunks of each rank, in their order.
class chunks_of_ranks {
public:
    chunks_of_ranks(const std::vector<int>& owner, int ranks);

    int ranks() const { return static_cast<int>(first_.size()) - 1; }
    std::span<const int> of(int rank) const {
        const std::size_t first = first_[static_cast<std::size_t>(rank)];
        return std::span(chunks_).subspan(first, first_[static_cast<std::size_t>(rank) + 1] - first);
    }

private:
    std::vector<std::size_t> first_;
    std::vector<int> chunks_;
};

/// The chunks of others that a rank needs, in at most `most` stages of equal work. Those of the rank after it come
/// first, and so on around, so that no two ranks begin with the same. `from`: of the rank that has these chunks alone;
/// below 0, of all.
std::vector<std::vector<int>> stages_of(int rank, std::span<const std::uint32_t> units, const chunks_of_ranks& chunks,
                                        int most, int from = -1);

inline constexpr int most_stages = 8;

}  // namespace attune::mpi::detail
