#include <attune/mpi/layouts.hpp>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

namespace attune::mpi {

std::string_view name_of(arrangement a) {
    switch (a) {
        case arrangement::best: return "best";
        case arrangement::contiguous: return "contiguous";
        case arrangement::zigzag: return "zigzag";
        case arrangement::striped: return "striped";
        case arrangement::documents: return "documents whole";
        case arrangement::affinity: return "greedy with affinity";
        case arrangement::greedy: return "greedy";
        case arrangement::ports: return "greedy with ports";
        case arrangement::own: return "the caller's positions";
    }
    return "?";
}

namespace detail {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// The key chunks that a query chunk needs, a bit for each.
class bits {
public:
    explicit bits(int count) : words_(at(count + 63) / 64) {}
    void add(int i) {
        const std::size_t word = at(i) / 64;
        words_[word] |= std::uint64_t{1} << (at(i) % 64);
        first_ = std::min(first_, word), end_ = std::max(end_, word + 1);
    }
    void add(const bits& other) {
        for (std::size_t w = other.first_; w < other.end_; ++w) words_[w] |= other.words_[w];
        first_ = std::min(first_, other.first_), end_ = std::max(end_, other.end_);
    }
    int common(const bits& other) const {
        int count = 0;
        for (std::size_t w = std::max(first_, other.first_); w < std::min(end_, other.end_); ++w)
            count += std::popcount(words_[w] & other.words_[w]);
        return count;
    }

private:
    std::vector<std::uint64_t> words_;
    std::size_t first_ = std::numeric_limits<std::size_t>::max(), end_ = 0;  // of the words that are not 0
};

std::vector<bits> needs(std::span<const work_table> graphs) {
    const int count = graphs[0].count;
    std::vector<bits> all(at(count), bits(count));
    for (const work_table& graph : graphs)
        for (int q = 0; q < count; ++q) {
            const auto row = graph.row(q);
            for (int k = 0; k < count; ++k)
                if (row[at(k)] != 0) all[at(q)].add(k);
        }
    return all;
}

std::vector<int> longest_first(const std::vector<double>& work) {
    std::vector<int> order(work.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int a, int b) { return work[at(a)] > work[at(b)]; });
    return order;
}

/// How many chunks the ranks have, of which none gets two more than another.
class places {
public:
    places(int count, int ranks) : fewest_(count / ranks), with_one_more_(count % ranks), has_(at(ranks)) {}
    bool fit(int rank, int chunks = 1) const {
        const int all = has_[at(rank)] + chunks;
        return all <= fewest_ || (all == fewest_ + 1 && with_one_more_ > 0);
    }
    void take(int rank) { with_one_more_ -= ++has_[at(rank)] > fewest_; }

private:
    int fewest_, with_one_more_;
    std::vector<int> has_;
};

/// Chunks in the order of their work, each to the rank that has least and has room; or, by keys, to the one of those
/// that have little more which needs most of the chunk's keys already.
std::vector<int> greedy(std::span<const work_table> graphs, int ranks, bool by_keys) {
    const std::vector<double> work = work_of_chunks(graphs);
    const int count = graphs[0].count;
    const double mean = std::accumulate(work.begin(), work.end(), 0.0) / ranks;
    const std::vector<bits> need = by_keys ? needs(graphs) : std::vector<bits>();
    std::vector<bits> needed(by_keys ? at(ranks) : 0, bits(count));
    std::vector<double> load(at(ranks));
    std::vector<int> owner(at(count));
    places room(count, ranks);
    for (const int chunk : longest_first(work)) {
        double least = -1;
        for (int r = 0; r < ranks; ++r)
            if (room.fit(r) && (least < 0 || load[at(r)] < least)) least = load[at(r)];
        int best = -1, most = -1;
        for (int r = 0; r < ranks; ++r) {
            if (!room.fit(r) || load[at(r)] > least + (by_keys ? 0.03 * mean : 0.0)) continue;
            const int common = by_keys ? needed[at(r)].common(need[at(chunk)]) : 0;
            if (common > most) best = r, most = common;
        }
        owner[at(chunk)] = best, load[at(best)] += work[at(chunk)], room.take(best);
        if (by_keys) needed[at(best)].add(need[at(chunk)]);
    }
    return owner;
}

/// The query chunks that need each chunk of keys, in calls: about as many as its rank sends.
std::vector<double> readers_of_chunks(std::span<const work_table> graphs) {
    std::vector<double> readers(at(graphs[0].count));
    for (const work_table& graph : graphs)
        for (int q = 0; q < graph.count; ++q) {
            const auto row = graph.row(q);
            for (std::size_t k = 0; k < row.size(); ++k) readers[k] += row[k] != 0 ? graph.calls : 0.0;
        }
    return readers;
}

/// A chunk that many see, such as the front of a long document, has little work itself: by work alone some rank gets
/// many of these, and all others wait for its port. Here both are loads, in means of a rank.
std::vector<int> with_ports(std::span<const work_table> graphs, int ranks) {
    const int count = graphs[0].count;
    const auto in_means = [&](std::vector<double> loads) {
        const double mean = std::accumulate(loads.begin(), loads.end(), 0.0) / ranks;
        for (double& each : loads) each = mean > 0 ? each / mean : 0;
        return loads;
    };
    const std::vector<double> work = in_means(work_of_chunks(graphs)), sent = in_means(readers_of_chunks(graphs));
    std::vector<double> larger(at(count));
    for (int c = 0; c < count; ++c) larger[at(c)] = std::max(work[at(c)], sent[at(c)]);
    const std::vector<bits> need = needs(graphs);
    std::vector<bits> needed(at(ranks), bits(count));
    std::vector<double> computes(at(ranks)), sends(at(ranks));
    std::vector<int> owner(at(count));
    places room(count, ranks);
    for (const int chunk : longest_first(larger)) {
        const auto load = [&](int r) {
            return std::max(computes[at(r)] + work[at(chunk)], sends[at(r)] + sent[at(chunk)]);
        };
        double least = -1;
        for (int r = 0; r < ranks; ++r)
            if (room.fit(r) && (least < 0 || load(r) < least)) least = load(r);
        int best = -1, most = -1;
        for (int r = 0; r < ranks; ++r) {
            if (!room.fit(r) || load(r) > least + 0.03) continue;
            const int common = needed[at(r)].common(need[at(chunk)]);
            if (common > most) best = r, most = common;
        }
        owner[at(chunk)] = best, room.take(best), needed[at(best)].add(need[at(chunk)]);
        computes[at(best)] += work[at(chunk)], sends[at(best)] += sent[at(chunk)];
    }
    return owner;
}

/// The first chunk of each piece: of what lies before it, hardly more than the chunk in which the boundary lies is seen
/// from behind it.
std::vector<int> pieces(std::span<const work_table> graphs) {
    const int count = graphs[0].count;
    std::vector<int> crossing(at(count) + 1);  // pairs of chunks on both sides of a boundary, as differences
    for (const work_table& graph : graphs)
        for (int q = 0; q < count; ++q) {
            const auto row = graph.row(q);
            for (int k = 0; k < count; ++k)
                if (row[at(k)] != 0) ++crossing[at(std::min(q, k) + 1)], --crossing[at(std::max(q, k) + 1)];
        }
    std::vector<int> first{0};
    for (int c = 1, crossed = 0; c < count; ++c)
        if ((crossed += crossing[at(c)]) <= 2 * static_cast<int>(graphs.size())) first.push_back(c);
    first.push_back(count);
    return first;
}

/// Whole pieces, the longest first, to the least loaded rank with room for all of one; pieces that fit nowhere are
/// filled in.
std::vector<int> whole_documents(std::span<const work_table> graphs, int ranks) {
    const std::vector<double> work = work_of_chunks(graphs);
    const int count = graphs[0].count;
    const std::vector<int> first = pieces(graphs);
    std::vector<double> load(at(ranks)), of_piece;
    std::vector<int> owner(at(count), -1);
    places room(count, ranks);
    for (std::size_t p = 0; p + 1 < first.size(); ++p)
        of_piece.push_back(std::accumulate(work.begin() + first[p], work.begin() + first[p + 1], 0.0));
    const auto give = [&](int from, int to) {
        int best = -1;
        for (int r = 0; r < ranks; ++r)
            if (room.fit(r, to - from) && (best < 0 || load[at(r)] < load[at(best)])) best = r;
        for (int c = from; c < to && best >= 0; ++c)
            owner[at(c)] = best, load[at(best)] += work[at(c)], room.take(best);
    };
    for (const int p : longest_first(of_piece)) give(first[at(p)], first[at(p) + 1]);
    for (int c = 0; c < count; ++c)
        if (owner[at(c)] < 0) give(c, c + 1);
    return owner;
}

}  // namespace

std::vector<double> work_of_chunks(std::span<const work_table> graphs) {
    std::vector<double> work(at(graphs[0].count));
    for (const work_table& graph : graphs)
        for (int q = 0; q < graph.count; ++q) {
            const auto row = graph.row(q);
            const std::uint64_t units = std::accumulate(row.begin(), row.end(), std::uint64_t{});
            work[at(q)] += graph.calls * (graph.flops * static_cast<double>(units));
        }
    return work;
}

std::vector<int> owners(arrangement how, std::span<const work_table> graphs, int ranks) {
    const int count = graphs[0].count;
    std::vector<int> owner(at(count));
    switch (how) {
        case arrangement::greedy: return greedy(graphs, ranks, false);
        case arrangement::affinity: return greedy(graphs, ranks, true);
        case arrangement::ports: return with_ports(graphs, ranks);
        case arrangement::documents: return whole_documents(graphs, ranks);
        case arrangement::zigzag:
            for (int c = 0; c < count; ++c) {
                // With too few chunks none is at the back.
                const int piece = count < 2 * ranks ? c : static_cast<int>(std::int64_t{2} * ranks * c / count);
                owner[at(c)] = std::min(piece, 2 * ranks - 1 - piece);
            }
            return owner;
        case arrangement::striped:
            for (int c = 0; c < count; ++c) owner[at(c)] = c % ranks;
            return owner;
        case arrangement::contiguous:
        case arrangement::best:
        case arrangement::own: break;
    }
    for (int c = 0; c < count; ++c) owner[at(c)] = static_cast<int>(std::int64_t{ranks} * c / count);
    return owner;
}

}  // namespace detail
}  // namespace attune::mpi
