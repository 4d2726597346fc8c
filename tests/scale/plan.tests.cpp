// Plans without kernels: who has which tokens, who sends what to whom, against all pairs one by one.
#include <attune/mpi/plan.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <random>
#include <string>

using namespace attune;

namespace {

using mask = std::function<bool(std::int64_t q, std::int64_t k)>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Each visible pair is a unit.
mpi::work_table table_of(const mpi::chunks& tokens, const mask& visible) {
    mpi::work_table made{tokens.count(), 1000, {}};
    made.units.assign(at(tokens.count()) * at(tokens.count()), 0);
    for (int q = 0; q < made.count; ++q)
        for (int k = 0; k < made.count; ++k)
            for (const std::int32_t query : tokens.positions(q))
                for (const std::int32_t key : tokens.positions(k))
                    made.units[at(q) * at(made.count) + at(k)] += visible(query, key);
    return made;
}

mpi::exchange_plan graph_plan() {
    mpi::exchange_plan graph;
    graph.variant = "test", graph.fingerprint = 1, graph.bytes = {.keys = 1024, .results = 1024}, graph.travellers = 2;
    return graph;
}

mpi::layout layout_of(std::int64_t tokens, int rank, int ranks, mpi::arrangement how, const mask& visible,
                      int stages = 0) {
    mpi::planning what{.tokens = tokens, .layout = how, .stages = stages};
    what.speed.flops = 1e9;
    const mpi::chunks all = mpi::cut(tokens, ranks);
    return {what, rank, ranks, all, {}, {table_of(all, visible)}, {graph_plan()}};
}

/// How often a rank has each key: its own, and those that arrive in its stages.
std::vector<int> keys_of(const mpi::layout& plan) {
    std::vector<int> times(at(plan.chunks().tokens()));
    for (const std::int32_t own : plan.positions()) ++times[at(own)];
    for (const mpi::stage& stage : plan.graphs()[0].stages) {
        std::int64_t in_runs = 0, in_chunks = 0;
        for (const int c : stage.chunks) {
            in_chunks += plan.chunks().tokens(c);
            for (const std::int32_t key : plan.chunks().positions(c)) ++times[at(key)];
        }
        for (const mpi::run_of_keys& run : stage.runs) in_runs += run.count;
        CHECK((in_runs == stage.tokens && in_chunks == stage.tokens && stage.tokens > 0));
    }
    return times;
}

/// Whether a row of a rank takes part where each key is.
std::vector<bool> keys_of_row(const mpi::layout& plan, std::int64_t row) {
    std::vector<bool> all(at(plan.chunks().tokens()));
    for (const std::int32_t own : plan.positions()) all[at(own)] = true;
    for (const mpi::stage& stage : plan.graphs()[0].stages)
        for (const int c : stage.chunks)
            for (const std::int32_t key : plan.chunks().positions(c))
                if (row >= stage.first_query && row < stage.first_query + stage.queries) all[at(key)] = true;
    return all;
}

struct named_mask {
    const char* name;
    mask visible;
};
std::vector<named_mask> masks(std::int64_t tokens) {
    std::mt19937 random(static_cast<unsigned>(tokens));
    std::vector<std::int64_t> document(at(tokens));
    for (std::int64_t t = 1; t < tokens; ++t) document[at(t)] = document[at(t - 1)] + (random() % 13 == 0);
    return {{"everything", [](auto, auto) { return true; }},
            {"nothing", [](auto, auto) { return false; }},
            {"causal", [](auto q, auto k) { return k <= q; }},
            {"window", [](auto q, auto k) { return k <= q && k > q - 5; }},
            {"the first key", [](auto, auto k) { return k == 0; }},
            {"the last query", [tokens](auto q, auto) { return q == tokens - 1; }},
            {"documents", [document](auto q, auto k) { return document[at(q)] == document[at(k)] && k <= q; }},
            {"scattered", [](auto q, auto k) { return (q * 7919 + k * 104729) % 97 == 0; }}};
}

constexpr mpi::arrangement arrangements[] = {
    mpi::arrangement::best,      mpi::arrangement::contiguous, mpi::arrangement::zigzag, mpi::arrangement::striped,
    mpi::arrangement::documents, mpi::arrangement::affinity,   mpi::arrangement::greedy, mpi::arrangement::ports};

/// The plans of all ranks.
void check(std::int64_t tokens, int ranks, mpi::arrangement how, const mask& visible) {
    std::vector<mpi::layout> plans;
    for (int r = 0; r < ranks; ++r) plans.push_back(layout_of(tokens, r, ranks, how, visible));
    std::vector<int> owner(at(tokens), -1);
    std::size_t fewest = at(tokens), most = 0;
    std::int64_t received = 0;
    bool once = true, alike = true, complete = true, matched = true;
    for (const mpi::layout& plan : plans) {
        alike = alike && plan.hash() == plans[0].hash() && plan.owners() == plans[0].owners();
        for (const std::int32_t own : plan.positions()) once = once && std::exchange(owner[at(own)], plan.rank()) < 0;
        CHECK(std::ranges::is_sorted(plan.positions()));
        fewest = std::min(fewest, plan.positions().size()), most = std::max(most, plan.positions().size());
        received += plan.graphs()[0].tokens_received();
    }
    for (std::int64_t q = 0; q < tokens; ++q) once = once && owner[at(q)] >= 0;
    for (const mpi::layout& plan : plans) {
        complete = complete && std::ranges::max(keys_of(plan)) <= 1;
        for (std::int64_t row = 0; row < std::ssize(plan.positions()); ++row) {
            const std::vector<bool> there = keys_of_row(plan, row);
            for (std::int64_t k = 0; k < tokens; ++k)
                complete = complete && (!visible(plan.positions()[at(row)], k) || there[at(k)]);
        }
        // The messages that a rank waits for are sent, in the same order.
        for (const mpi::layout& from : plans) {
            std::vector<std::pair<int, mpi::run_of_keys>> sent, awaited;
            for (const auto& [stage, run] : from.graphs()[0].sends)
                if (run.rank == plan.rank()) sent.push_back({stage, {from.rank(), run.first, run.count}});
            for (std::size_t s = 0; s < plan.graphs()[0].stages.size(); ++s)
                for (const mpi::run_of_keys& run : plan.graphs()[0].stages[s].runs)
                    if (run.rank == from.rank()) awaited.emplace_back(static_cast<int>(s), run);
            matched = matched && sent == awaited;
        }
    }
    INFO(tokens << " tokens, " << ranks << " ranks, " << name_of(how));
    CHECK(once);
    CHECK(alike);
    CHECK(complete);
    CHECK(matched);
    CHECK(most - fewest <= at(std::max<std::int64_t>(1, plans[0].chunks().count() / ranks)));
    CHECK(static_cast<double>(received) * graph_plan().bytes.keys == plans[0].graphs()[0].predicted.received);
}

}  // namespace

TEST_CASE("each rank receives every key that one of its queries sees, once, from the rank that has it") {
    for (const std::int64_t tokens : {1, 2, 7, 64, 97})
        for (const int ranks : {1, 2, 3, 5, 8, 13})
            for (const auto& [name, visible] : masks(tokens)) {
                INFO(name);
                for (const mpi::arrangement how : arrangements) check(tokens, ranks, how, visible);
            }
}

TEST_CASE("rows that see nothing of a stage take no part in it") {
    // Of 4000 tokens, 2000 a rank in chunks of 250: the first 100 rows of rank 1 see keys of rank 0.
    const mpi::layout window =
        layout_of(4000, 1, 2, mpi::arrangement::contiguous, [](auto q, auto k) { return k <= q && k > q - 100; });
    const std::vector<mpi::stage>& stages = window.graphs()[0].stages;
    REQUIRE(stages.size() == 1);
    CHECK((stages[0].first_query == 0 && stages[0].queries == window.chunks().tokens(0)));
    CHECK(stages[0].queries < std::ssize(window.positions()) / 4);
}

TEST_CASE("no tokens are no work") {
    const mpi::layout none = layout_of(0, 1, 3, mpi::arrangement::best, [](auto, auto) { return true; });
    CHECK((none.positions().empty() && none.graphs()[0].stages.empty() && none.graphs()[0].sends.empty()));
    CHECK(none.explain().text().find("0 tokens here") != std::string::npos);
}

TEST_CASE("a thousand ranks have plans, of which some are looked at") {
    const auto causal = [](std::int64_t q, std::int64_t k) { return k <= q; };
    for (const int ranks : {255, 1000})
        for (const mpi::arrangement how : arrangements) {
            const std::int64_t tokens = 2345;
            for (const int rank : {0, ranks / 2, ranks - 1}) {
                const mpi::layout plan = layout_of(tokens, rank, ranks, how, causal);
                const std::vector<int> times = keys_of(plan);
                CHECK(std::ranges::max(times) <= 1);
                for (const std::int32_t q : plan.positions())
                    CHECK(std::all_of(times.begin(), times.begin() + q + 1, [](int n) { return n == 1; }));
            }
        }
}

TEST_CASE("stages are as many as are asked for, and of like work") {
    const auto all = [](auto, auto) { return true; };
    for (int stages = 1; stages <= 8; ++stages) {
        const mpi::layout plan = layout_of(4096, 3, 16, mpi::arrangement::contiguous, all, stages);
        CHECK(std::ssize(plan.graphs()[0].stages) == stages);
        std::int64_t fewest = 4096, most = 0;
        for (const mpi::stage& each : plan.graphs()[0].stages)
            fewest = std::min(fewest, each.tokens), most = std::max(most, each.tokens);
        CHECK(most - fewest <= 2 * plan.chunks().tokens(0));
        CHECK(plan.graphs()[0].stages[0].runs[0].rank == 4);  // another one for each rank
    }
}

TEST_CASE("stages are what sorting by distance and cutting by work comes to") {
    constexpr int ranks = 7, count = 60;
    std::mt19937 random(4);
    std::vector<std::uint32_t> units(count);
    std::vector<int> owner(count);
    for (int most = 1; most <= 8; ++most)
        for (int rank = 0; rank < ranks; ++rank) {
            for (std::uint32_t& each : units) each = random() % 3 == 0 ? 0 : random() % 1000;
            for (int& each : owner) each = static_cast<int>(random() % ranks);
            std::vector<int> needed;
            std::uint64_t all = 0, before = 0;
            for (int c = 0; c < count; ++c)
                if (units[at(c)] != 0 && owner[at(c)] != rank) needed.push_back(c), all += units[at(c)];
            std::ranges::stable_sort(needed, {}, [&](int c) { return (owner[at(c)] - rank + ranks) % ranks; });
            std::vector<std::vector<int>> expected(at(most));
            for (const int c : needed)
                expected[at(static_cast<std::int64_t>(before * static_cast<std::uint64_t>(most) / all))].push_back(c),
                    before += units[at(c)];
            std::erase_if(expected, [](const auto& stage) { return stage.empty(); });
            const mpi::detail::chunks_of_ranks by_rank(owner, ranks);
            const auto made = mpi::detail::stages_of(rank, units, by_rank, most);
            CHECK(made == expected);
            for (int from = 0; from < ranks; ++from) {
                const auto of_one = mpi::detail::stages_of(rank, units, by_rank, most, from);
                for (std::size_t s = 0; s < of_one.size(); ++s) {
                    std::vector<int> own = made[s];
                    std::erase_if(own, [&](int c) { return owner[at(c)] != from; });
                    CHECK(of_one[s] == own);
                }
            }
        }
}

TEST_CASE("many ranks have as many chunks each as few have") {
    CHECK(mpi::cut(std::int64_t{1} << 20, 64).count() == 512);
    CHECK(mpi::cut(std::int64_t{1} << 20, 256).count() == 2048);
    CHECK(mpi::cut(std::int64_t{1} << 22, 1024).count() == 8192);
    CHECK(mpi::cut(std::int64_t{1} << 24, 4096).count() == 8192);
}

TEST_CASE("the model prefers what suits a mask") {
    const std::int64_t tokens = 2048;
    const auto chosen = [&](const mask& visible) { return layout_of(tokens, 0, 8, mpi::arrangement::best, visible); };
    const auto balance = [](const mpi::layout& plan) { return plan.graphs()[0].predicted.balance; };
    const mpi::layout window = chosen([](auto q, auto k) { return k <= q && k > q - 100; });
    CHECK(window.chosen() == mpi::arrangement::contiguous);
    CHECK(window.graphs()[0].predicted.received < 0.15 * window.graphs()[0].predicted.ring);
    const mpi::layout causal = chosen([](auto q, auto k) { return k <= q; });
    CHECK(causal.chosen() == mpi::arrangement::zigzag);
    CHECK(balance(causal) < 1.01);
    // Two long documents in front, short ones behind.
    const auto document = [](std::int64_t t) { return t < 1024 ? t / 512 : 2 + t / 32; };
    const mask documents = [&](auto q, auto k) { return document(q) == document(k); };
    CHECK(balance(chosen(documents)) < 0.8 * balance(layout_of(tokens, 0, 8, mpi::arrangement::contiguous, documents)));
    CHECK(balance(layout_of(tokens, 0, 8, mpi::arrangement::affinity, documents)) < 1.1);
    CHECK(balance(layout_of(tokens, 0, 8, mpi::arrangement::greedy, documents)) < 1.1);
    const std::string text = causal.explain().text();
    std::printf("%s", text.c_str());
    for (const char* said : {"layout     zigzag", "receives", "sends", "predicted", "contiguous:", "FLOPs here of"})
        CHECK(text.find(said) != std::string::npos);
}

TEST_CASE("what many read is not sent by one rank") {
    // Documents of 1 to 96 chunks, causal in each: of the longest, the front has the least work and the most readers.
    constexpr int ranks = 64, count = 512;
    std::mt19937 random(3);
    std::vector<int> document;
    for (int d = 0; std::ssize(document) < count; ++d)
        document.insert(document.end(), d == 0 ? 96 : 1 + random() % 40, d);
    mpi::work_table table{count, 1e9, {}};
    for (int q = 0; q < count; ++q)
        for (int k = 0; k < count; ++k)
            table.units.push_back(document[at(q)] != document[at(k)] || k > q ? 0 : k < q ? 2 : 1);
    mpi::planning what{.tokens = 512 * 512};
    what.speed = {.flops = 1e12, .bytes = 2e8};
    const auto plan = [&](mpi::arrangement how) {
        what.layout = how;
        return mpi::layout(what, 0, ranks, mpi::cut(what.tokens, ranks), {}, {table}, {graph_plan()});
    };
    const auto of = [&](mpi::arrangement how) { return plan(how).graphs()[0].predicted; };
    const mpi::cost ports = of(mpi::arrangement::ports), affinity = of(mpi::arrangement::affinity);
    CAPTURE(ports.seconds, affinity.seconds, ports.sending, affinity.sending, ports.balance, affinity.balance);
    CHECK(ports.sending < 0.75 * affinity.sending);
    CHECK(ports.seconds < 0.9 * affinity.seconds);
    CHECK(ports.balance < 1.15);
    CHECK(plan(mpi::arrangement::best).chosen() == mpi::arrangement::ports);
}

TEST_CASE("one layout serves several graphs, weighed") {
    const mpi::chunks tokens = mpi::cut(1024, 4);
    const mpi::work_table window = table_of(tokens, [](auto q, auto k) { return k <= q && k > q - 64; }),
                          causal = table_of(tokens, [](auto q, auto k) { return k <= q; });
    mpi::exchange_plan other = graph_plan();
    other.fingerprint = 2;
    const auto chosen = [&](const std::vector<double>& weights, double bytes = 1e8) {
        mpi::planning what{.tokens = 1024, .weights = weights};
        what.speed.flops = 1e9, what.speed.bytes = bytes;
        return mpi::layout(what, 1, 4, tokens, {}, {window, causal}, {graph_plan(), other});
    };
    CHECK(chosen({1000, 1}).chosen() == mpi::arrangement::contiguous);
    CHECK(chosen({20, 1}, 1e7).chosen() == mpi::arrangement::contiguous);  // each call sends, too
    CHECK(chosen({1, 1}, 1e7).chosen() == mpi::arrangement::zigzag);
    const mpi::layout both = chosen({1, 1});
    CHECK(both.chosen() == mpi::arrangement::zigzag);
    CHECK(both.of(1).tokens_received() < both.of(2).tokens_received());
    CHECK_THROWS_AS(both.of(3), error);
    // The explanation describes one call.
    const mpi::layout often = chosen({300, 300});
    CHECK(often.explain().text() == both.explain().text());
}

TEST_CASE("greedy layouts balance the work of all calls") {
    const mpi::chunks tokens = mpi::cut(64, 2);
    const auto owners = [&](const std::vector<double>& weights) {
        const mpi::planning what{
            .tokens = 64, .layout = mpi::arrangement::greedy, .speed = {.flops = 1e9}, .weights = weights};
        return mpi::layout(what, 0, 2, tokens, {},
                           {table_of(tokens, [](auto q, auto) { return q < 16; }),
                            table_of(tokens, [](auto q, auto) { return q >= 16; })},
                           {graph_plan(), graph_plan()})
            .owners();
    };
    CHECK(owners({}) == std::vector{0, 1, 0, 1});
    CHECK(owners({3, 1}) == std::vector{0, 1, 1, 0});
}

TEST_CASE("a layout of fewer than two tokens a rank is the one that was asked for") {
    const auto owners = [](std::int64_t tokens, int ranks, mpi::arrangement how) {
        return layout_of(tokens, 0, ranks, how, [](auto q, auto k) { return k <= q; }).owners();
    };
    CHECK(owners(3, 2, mpi::arrangement::contiguous) == std::vector{0, 0, 1});
    CHECK(owners(3, 2, mpi::arrangement::zigzag) == std::vector{0, 1, 1});
    CHECK(owners(3, 2, mpi::arrangement::striped) == std::vector{0, 1, 0});
    CHECK(owners(3, 2, mpi::arrangement::greedy) == std::vector{1, 1, 0});
    CHECK(owners(3, 2, mpi::arrangement::affinity) == std::vector{1, 1, 0});
    CHECK(owners(3, 2, mpi::arrangement::documents) == std::vector{1, 1, 0});
    CHECK(owners(5, 4, mpi::arrangement::zigzag) == std::vector{0, 1, 2, 3, 3});
}

TEST_CASE("positions of one's own are cut into as many chunks as others at most") {
    std::vector<std::vector<std::int32_t>> of_ranks(2);
    of_ranks[1].resize(5 << 20);
    std::iota(of_ranks[1].begin(), of_ranks[1].end(), 0);
    const auto [chunks, owner] = mpi::cut(of_ranks);
    CHECK(chunks.count() == 2048);
    CHECK(mpi::cut(std::int64_t{10} << 20, 2).count() == 4096);
    CHECK(chunks.tokens() == 5 << 20);
    CHECK(owner == std::vector<int>(at(chunks.count()), 1));
}
