#include <attune/mpi/plan.hpp>

#include <algorithm>

/// Stages that are the same on any number of ranks: all keys of some positions, in their order. The summands of a row
/// of results, and their order, then depend on no layout.
namespace attune::mpi::detail {
namespace {

constexpr std::int64_t fewest_keys = 256, most_keys = 16384;  // two stages are in memory at a time
constexpr std::int64_t most_fixed_stages = 64;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

void add(std::vector<run_of_keys>& runs, const run_of_keys& next) {
    if (!runs.empty() && runs.back().rank == next.rank && runs.back().first + runs.back().count == next.first &&
        runs.back().to + runs.back().count == next.to)
        runs.back().count += next.count;
    else
        runs.push_back(next);
}

}  // namespace

int count_of_fixed_stages(std::int64_t tokens) {
    const std::int64_t usual = std::clamp<std::int64_t>(tokens / fewest_keys, 1, most_stages);
    return static_cast<int>(std::clamp((tokens + most_keys - 1) / most_keys, usual, most_fixed_stages));
}

std::vector<stage> fixed_stages(int rank, std::span<const std::uint32_t> units, const chunks_of_ranks& by_rank,
                                const chunks& tokens, int count) {
    const std::int64_t keys = std::max<std::int64_t>(1, (tokens.tokens() + count - 1) / count);
    std::vector<stage> made(at(count));
    for (int s = 0; s < count; ++s) {
        made[at(s)].first = std::min(s * keys, tokens.tokens());
        made[at(s)].keys = std::min(keys, tokens.tokens() - made[at(s)].first);
    }
    for (int away = 0; away < by_rank.ranks(); ++away) {
        const int owner = (rank + away) % by_rank.ranks();
        std::int64_t row = 0;
        for (const int c : by_rank.of(owner)) {
            const std::int64_t first = tokens.tokens(c) > 0 ? tokens.positions(c).front() : 0,
                               last = first + tokens.tokens(c);
            for (std::int64_t position = first; position < last && units[at(c)] > 0;) {
                stage& here = made[at(position / keys)];
                const std::int64_t end = std::min(last, here.first + here.keys);
                const run_of_keys run{owner, row + position - first, end - position, position - here.first};
                add(away == 0 ? here.own : here.runs, run);
                if (away > 0) here.tokens += run.count;
                position = end;
            }
            row += tokens.tokens(c);
        }
    }
    return made;
}

}  // namespace attune::mpi::detail
