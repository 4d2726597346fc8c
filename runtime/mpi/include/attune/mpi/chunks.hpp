#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace attune::mpi {

/// The tokens of a sequence in chunks. A chunk lies with one rank, and it is what travels: keys of a chunk are sent
/// together or not at all. Its positions lie in `order` from begin[c] to begin[c + 1].
struct chunks {
    std::vector<std::int32_t> order;
    std::vector<std::int64_t> begin{0};

    int count() const { return static_cast<int>(begin.size()) - 1; }
    std::int64_t tokens() const { return begin.back(); }
    std::int64_t tokens(int chunk) const {
        return begin[static_cast<std::size_t>(chunk) + 1] - begin[static_cast<std::size_t>(chunk)];
    }
    std::span<const std::int32_t> positions(int chunk) const {
        return std::span(order).subspan(static_cast<std::size_t>(begin[static_cast<std::size_t>(chunk)]),
                                        static_cast<std::size_t>(tokens(chunk)));
    }
};

/// Each rank has equally many chunks, of 256 to 2048 tokens if it has enough. Chunks differ by at most one token. With
/// fewer than two tokens a rank, each token is a chunk.
chunks cut(std::int64_t tokens, int ranks);

/// Each rank's positions, cut where they lie, and the rank of each chunk.
std::pair<chunks, std::vector<int>> cut(std::span<const std::vector<std::int32_t>> of_ranks);

/// The number of chunks into which one of so many ranks cuts `tokens` tokens: at least two, and few enough to keep the
/// table of all pairs of all ranks' chunks small.
std::int64_t chunks_of_rank(std::int64_t tokens, int ranks);

}  // namespace attune::mpi
