// A plan's questions about the kernels' blocks, against all pairs one by one; and the time of planning.
#include "../shards/variants.hpp"

#include <attune/mpi/plan.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <numeric>
#include <random>
#include <vector>

using namespace attune;

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

detail::named_argument documents_of(const std::vector<std::int32_t>& document) {
    return {.name = "document", .view = tensor(document.data(), {std::ssize(document)})};
}

std::vector<std::int32_t> random_documents(std::int64_t tokens, unsigned mean, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::int32_t> document(at(tokens));
    for (std::int64_t t = 1; t < tokens; ++t) document[at(t)] = document[at(t - 1)] + (random() % mean == 0);
    return document;
}

/// A chunk that some pair needs has work; and nearly all that has work some pair needs.
template <class Visible>
void check(const kernel_table& table, const mpi::chunks& tokens, std::vector<detail::named_argument> given,
           const Visible& visible, const mpi::planning& what, std::int64_t heads_counted) {
    const int count = tokens.count();
    const mpi::work_table all = mpi::detail::work_of(table, what, given, tokens, 0, count, {.threads = 1});
    int needless = 0, needed = 0;
    double pairs = 0;
    for (int q = 0; q < count; ++q)
        for (int k = 0; k < count; ++k) {
            std::int64_t seen = 0;
            for (const std::int32_t query : tokens.positions(q))
                for (const std::int32_t key : tokens.positions(k)) seen += visible(query, key);
            const std::uint32_t units = all.row(q)[at(k)];
            CHECK((seen == 0 || units > 0));
            needed += seen > 0, needless += seen == 0 && units > 0;
            pairs += static_cast<double>(seen);
        }
    CHECK(needless <= needed / 10);
    // Blocks that are partly visible count three quarters; those at a chunk's end are filled up.
    const double flops = all.flops * std::accumulate(all.units.begin(), all.units.end(), 0.0),
                 of_pairs = 2.0 * pairs * table.kernels[0].depths_of_pair * static_cast<double>(heads_counted);
    CHECK((flops > 0.5 * of_pairs && flops < 16 * of_pairs));
    // Each rank asks for some rows.
    const mpi::work_table part = mpi::detail::work_of(table, what, given, tokens, 1, count - 1, {.threads = 1});
    CHECK(std::ranges::equal(part.units, std::span(all.units).subspan(at(count), part.units.size())));
}

}  // namespace

TEST_CASE("chunks are needed where a pair is visible, as the kernels' own blocks have it") {
    const mpi::planning what{.batches = 2, .heads = 4, .key_heads = 2, .tokens = 1000};
    const std::vector<std::int32_t> document = random_documents(1000, 60, 3), lengths{1000, 120};
    const auto windowed = [](auto q, auto k) { return k <= q && k >= q - 40; };
    const auto documents = [&](auto q, auto k) { return document[at(q)] == document[at(k)] && k <= q; };
    const auto& of_windows = detail::table_of<sharded::windowed_shard>();
    const auto& of_documents = detail::table_of<sharded::documents_shard>();
    mpi::chunks shuffled = mpi::cut(1000, 8);
    std::mt19937 random(5);
    std::ranges::shuffle(shuffled.order, random);
    for (const int ranks : {1, 3, 16}) {
        check(of_windows, mpi::cut(1000, ranks), {}, windowed, what, 8);
        check(of_documents, mpi::cut(1000, ranks), {documents_of(document)}, documents, what, 8);
        // Lengths are of each batch element: what any of them needs is needed. Both ends of the window are relative to
        // the last key in use.
        check(of_documents, mpi::cut(1000, ranks),
              {documents_of(document), {.name = "lengths", .view = tensor(lengths.data(), {2})}}, documents, what, 4);
    }
    const mpi::work_table any_order = mpi::detail::work_of(of_documents, what, std::vector{documents_of(document)},
                                                           shuffled, 0, shuffled.count(), {.threads = 1});
    for (int q = 0; q < shuffled.count(); ++q)
        for (int k = 0; k < shuffled.count(); ++k) {
            bool seen = false;
            for (const std::int32_t query : shuffled.positions(q))
                for (const std::int32_t key : shuffled.positions(k)) seen = seen || documents(query, key);
            CHECK((!seen || any_order.row(q)[at(k)] > 0));
        }
}

TEST_CASE("chunks that are decided as a whole have the work that kernels say they have") {
    constexpr std::int64_t tokens = 6000;
    const mpi::planning what{.batches = 2, .heads = 2, .key_heads = 1, .tokens = tokens};
    std::mt19937 random(9);
    std::vector<std::int32_t> lengths{6000, 2100}, short_documents = random_documents(tokens, 90, 1),
                                                   long_documents = random_documents(tokens, 1500, 2);
    const auto& windows = detail::table_of<sharded::windowed_shard>();
    const auto& documents = detail::table_of<sharded::documents_shard>();
    const auto& causal = detail::table_of<sharded::sigmoid_shard>();
    const detail::named_argument with_lengths{.name = "lengths", .view = tensor(lengths.data(), {2})};
    for (const int ranks : {1, 4, 9}) {
        mpi::chunks shuffled = mpi::cut(tokens, ranks);
        std::ranges::shuffle(shuffled.order, random);
        std::vector<std::vector<std::int32_t>> own(3);
        for (std::int32_t t = 0; t < tokens; ++t) own[at(t / 50 * 7 % 11 % 3)].push_back(t);
        for (const mpi::chunks& all : {mpi::cut(tokens, ranks), shuffled, mpi::cut(own).first}) {
            const auto same = [&](const kernel_table& table, const std::vector<detail::named_argument>& given) {
                const int first = all.count() / 3, last = all.count() - 1;
                const auto units = [&](bool by_kernels_alone) {
                    return mpi::detail::work_of(table, what, given, all, first, last, {.threads = 1}, by_kernels_alone)
                        .units;
                };
                CHECK(units(false) == units(true));
            };
            same(windows, {}), same(windows, {with_lengths}), same(causal, {}), same(causal, {with_lengths});
            for (const auto& document : {short_documents, long_documents}) {
                same(documents, {documents_of(document)});
                same(documents, {documents_of(document), with_lengths});
            }
        }
    }
}

TEST_CASE("what decides what is visible must be given, of all tokens") {
    const mpi::planning what{.tokens = 100};
    const mpi::chunks tokens = mpi::cut(100, 2);
    const auto& table = detail::table_of<sharded::documents_shard>();
    const auto refused = [&](const mpi::planning& of, std::vector<detail::named_argument> given) -> std::string {
        try {
            mpi::detail::work_of(table, of, given, tokens, 0, tokens.count(), {});
        } catch (const error& refusal) {
            return refusal.what();
        }
        return "";
    };
    CHECK(refused(what, {}) ==
          "attune: expected document in the plan, because it decides what is visible, got none; "
          "try plan<...>(..., document = ...), of all tokens");
    const std::vector<std::int32_t> half(50), all(100);
    CHECK(refused(what, {documents_of(half)}).find("document") != std::string::npos);
    CHECK(refused(what, {documents_of(all)}).empty());
    CHECK(refused({.tokens = 100, .depth = 48}, {documents_of(all)}) ==
          "attune: expected a kernel of sharded::documents_shard for depth 48 and elements of any, got none that runs "
          "here; try compiling one, or leaving depth and element out of the plan");
}

TEST_CASE("what is given and decides nothing changes nothing") {
    const mpi::planning what{.batches = 2, .heads = 4, .key_heads = 2, .tokens = 1000};
    const mpi::chunks tokens = mpi::cut(1000, 3);
    const std::vector<float> slopes(4, 0.25f), by_key(2000, 1.0f);
    const auto units = [&](std::vector<detail::named_argument> given) {
        const auto& table = detail::table_of<sharded::windowed_shard>();
        return mpi::detail::work_of(table, what, given, tokens, 0, tokens.count(), {.threads = 1}).units;
    };
    const std::vector<std::uint32_t> alone = units({});
    CHECK(std::accumulate(alone.begin(), alone.end(), 0u) > 0);
    CHECK(units({{.name = "slopes", .view = tensor(slopes.data(), {4})}}) == alone);
    CHECK(units({{.name = "sinks", .view = tensor(slopes.data(), {4})},
                 {.name = "by_key", .view = tensor(by_key.data(), {2, 1000})}}) == alone);
}

// exchange_tests "[.time]" prints the CPU time that one of 64 ranks spends on a plan, with one thread.
TEST_CASE("planning 1M tokens on 64 ranks", "[.time]") {
    constexpr std::int64_t tokens = 1 << 20;
    constexpr int ranks = 64;
    const std::vector<std::int32_t> document = random_documents(tokens / 4, 32768, 1);
    const auto milliseconds = [] { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
    const auto measure = [&](const char* name, const kernel_table& table, std::vector<detail::named_argument> given,
                             std::int64_t length) {
        const mpi::planning what{.heads = 32, .key_heads = 8, .tokens = length};
        const mpi::chunks all = mpi::cut(length, ranks);
        const int rows = all.count() / ranks;
        for (const int rank : {0, ranks / 2, ranks - 1}) {
            const double began = milliseconds();
            mpi::detail::work_of(table, what, given, all, rank * rows, (rank + 1) * rows, {.threads = 1});
            std::printf("%s: rank %d asks for its blocks in %.1f ms\n", name, rank, milliseconds() - began);
        }
    };
    measure("window of 40", detail::table_of<sharded::windowed_shard>(), {}, tokens);
    measure("documents, 256K tokens", detail::table_of<sharded::documents_shard>(), {documents_of(document)},
            tokens / 4);
    measure("causal", detail::table_of<sharded::sigmoid_shard>(), {}, tokens);

    const mpi::chunks all = mpi::cut(tokens, ranks);
    mpi::work_table causal{all.count(), 3.4e10, {}};  // 32 heads of depth 128
    for (int q = 0; q < all.count(); ++q)
        for (int k = 0; k < all.count(); ++k) causal.units.push_back(k < q ? 2 : k == q);
    mpi::planning fast{.heads = 32, .key_heads = 8, .tokens = tokens};
    fast.speed.flops = 5.6e12;
    mpi::exchange_plan graph;
    graph.bytes = {.keys = 16384, .results = 32768}, graph.travellers = 2;
    const double began = milliseconds();
    const mpi::layout plan(fast, 17, ranks, all, {}, {causal}, {graph});
    std::printf("%d chunks: choosing and staging takes %.1f ms\n%s", all.count(), milliseconds() - began,
                plan.explain().text().c_str());
    CHECK(plan.positions().size() == tokens / ranks);
}

// The same of a plan for many ranks, part by part: of one of them, after its table is complete.
TEST_CASE("planning 4M tokens on 1,024 ranks", "[.time]") {
    constexpr std::int64_t tokens = 1 << 22;
    constexpr int ranks = 1024;
    const auto milliseconds = [] { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
    const std::vector<std::int32_t> document = random_documents(tokens, 32768, 1);
    const mpi::chunks all = mpi::cut(tokens, ranks);
    const auto measure = [&](const char* name, const auto& units) {
        std::vector<mpi::work_table> table{{all.count(), 3.4e10, {}}};
        for (int q = 0; q < all.count(); ++q)
            for (int k = 0; k < all.count(); ++k) table[0].units.push_back(k <= q ? units(q, k) : 0);
        const mpi::rates speed{.flops = 5.6e12};
        const mpi::detail::bytes_of_token bytes{.keys = 8192, .results = 33024};
        for (const auto how : {mpi::arrangement::contiguous, mpi::arrangement::documents, mpi::arrangement::greedy,
                               mpi::arrangement::affinity}) {
            double began = milliseconds();
            const std::vector<int> owner = mpi::detail::owners(how, table, ranks);
            std::printf("%s, %s: owners %.1f ms", name, std::string(name_of(how)).c_str(), milliseconds() - began);
            began = milliseconds();
            mpi::detail::cost_of(table[0], all, owner, ranks, bytes, speed);
            std::printf(", cost %.1f ms\n", milliseconds() - began);
        }
        mpi::exchange_plan graph;
        graph.bytes = bytes, graph.travellers = 2;
        const double began = milliseconds();
        const mpi::layout plan({.tokens = tokens, .speed = speed}, 17, ranks, all, {}, table, {graph});
        std::printf("%s: %d chunks, choosing and staging takes %.1f ms\n", name, all.count(), milliseconds() - began);
        CHECK(plan.positions().size() == tokens / ranks);
    };
    measure("causal", [](int q, int k) { return k < q ? 2u : 1u; });
    measure("documents", [&](int q, int k) {
        return document[at(all.begin[at(q)])] == document[at(all.begin[at(k)])] ? 2u - (q == k) : 0u;
    });
}
