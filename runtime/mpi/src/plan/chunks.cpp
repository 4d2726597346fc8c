#include <attune/mpi/chunks.hpp>

#include <algorithm>
#include <numeric>

namespace attune::mpi {
namespace {

constexpr std::int64_t fewest_tokens = 256, most_tokens = 2048;
constexpr std::int64_t chunks_wanted = 8;  // few balance badly, many are needed in pieces by everybody
// The most chunks of all ranks: the plan looks at each pair of them. Many ranks have more of them, so that each has
// some.
constexpr std::int64_t most_chunks = 4096, most_of_many_ranks = 8192;

std::int64_t even(std::int64_t count) { return (count + 1) / 2 * 2; }

}  // namespace

std::int64_t chunks_of_rank(std::int64_t tokens, int ranks) {
    const std::int64_t size = std::clamp(tokens / chunks_wanted, fewest_tokens, most_tokens);
    const std::int64_t most = std::clamp(chunks_wanted * ranks, most_chunks, most_of_many_ranks);
    // Two at least, and as many from the front as from the back of the sequence.
    return std::max<std::int64_t>(2, std::min(even(tokens / size), most / ranks / 2 * 2));
}

chunks cut(std::int64_t tokens, int ranks) {
    const std::int64_t of_rank = tokens / ranks;
    std::int64_t count = tokens;
    if (of_rank >= 2) count = ranks * std::min(chunks_of_rank(of_rank, ranks), of_rank / 2 * 2);
    chunks made;
    made.order.resize(static_cast<std::size_t>(tokens));
    std::iota(made.order.begin(), made.order.end(), 0);
    made.begin.resize(static_cast<std::size_t>(count) + 1);
    for (std::int64_t c = 0; c <= count; ++c) made.begin[static_cast<std::size_t>(c)] = count ? tokens * c / count : 0;
    return made;
}

std::pair<chunks, std::vector<int>> cut(std::span<const std::vector<std::int32_t>> of_ranks) {
    std::pair<chunks, std::vector<int>> made;
    auto& [all, owner] = made;
    for (std::size_t r = 0; r < of_ranks.size(); ++r) {
        const std::int64_t count = std::ssize(of_ranks[r]),
                           pieces = std::min(count, chunks_of_rank(count, static_cast<int>(of_ranks.size())));
        for (std::int64_t piece = 1; piece <= pieces; ++piece) {
            all.begin.push_back(std::ssize(all.order) + count * piece / pieces);
            owner.push_back(static_cast<int>(r));
        }
        all.order.insert(all.order.end(), of_ranks[r].begin(), of_ranks[r].end());
    }
    return made;
}

}  // namespace attune::mpi
