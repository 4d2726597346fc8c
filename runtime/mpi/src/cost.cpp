#include <attune/mpi/cost.hpp>

#include <algorithm>
#include <cmath>

namespace attune::mpi::detail {
namespace {

struct of_rank {
    double flops{}, received{}, sent{}, tokens{};
    int messages{};
};

std::vector<of_rank> of_ranks(const work_table& graph, const chunks& tokens, const std::vector<int>& owner, int ranks,
                              double bytes) {
    std::vector<of_rank> all(static_cast<std::size_t>(ranks));
    const rank_work work(graph, owner, ranks);
    for (int c = 0; c < graph.count; ++c)
        all[static_cast<std::size_t>(owner[static_cast<std::size_t>(c)])].tokens +=
            static_cast<double>(tokens.tokens(c));
    for (int r = 0; r < ranks; ++r) {
        of_rank& here = all[static_cast<std::size_t>(r)];
        const auto units = work.row(r);
        std::uint64_t sum = 0;
        for (int c = 0; c < graph.count; ++c) {
            const std::uint32_t of_chunk = units[static_cast<std::size_t>(c)];
            const int from = owner[static_cast<std::size_t>(c)];
            sum += of_chunk;
            if (of_chunk == 0 || from == r) continue;
            const double size = static_cast<double>(tokens.tokens(c)) * bytes;
            here.received += size, ++here.messages;
            all[static_cast<std::size_t>(from)].sent += size;
        }
        here.flops = graph.flops * static_cast<double>(sum);
    }
    return all;
}

}  // namespace

cost cost_of(const work_table& graph, const chunks& tokens, const std::vector<int>& owner, int ranks,
             const bytes_of_token& bytes, const rates& speed, int stages) {
    const std::vector<of_rank> all = of_ranks(graph, tokens, owner, ranks, bytes.keys);
    cost best{};
    double most = 0, mean = 0;
    for (const of_rank& r : all) most = std::max(most, r.flops), mean += r.flops / ranks, best.received += r.received;
    best.balance = mean > 0 ? most / mean : 1;
    best.computing = most / speed.flops;
    best.ring = static_cast<double>(tokens.tokens()) * (ranks - 1) * bytes.keys;
    for (int k = stages ? stages : 1; k <= (stages ? stages : most_stages); ++k) {
        double slowest = 0;
        for (const of_rank& r : all) {
            const double c = r.flops / speed.flops;
            const double m = std::max(r.received, r.sent) / speed.bytes + r.messages * speed.latency;
            best.sending = std::max(best.sending, m);
            // What is only sent needs no stages.
            const double joined = r.received > 0 ? k * r.tokens * bytes.results / speed.merged : 0;
            slowest = std::max(slowest, std::max(c, m) + (r.received > 0 ? std::min(c, m) / k : 0) + joined);
        }
        if (best.stages == 0 || slowest < best.seconds) best.seconds = slowest, best.stages = k;
    }
    best.seconds += 2 * speed.latency * std::log2(ranks);
    return best;
}

}  // namespace attune::mpi::detail
