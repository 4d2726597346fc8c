#pragma once
#include <cstdint>
#include <span>
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

/// Equally many chunks a rank, of 256 to 2048 tokens where a rank has enough, alike but for one token. Of fewer than
/// two tokens a rank each is a chunk of its own.
chunks cut(std::int64_t tokens, int ranks);

/// The chunks that one rank has of `tokens` tokens.
std::int64_t chunks_of_rank(std::int64_t tokens);

}  // namespace attune::mpi
