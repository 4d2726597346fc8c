// Calls in virtual time, against what can be computed by hand and against the plans of the ranks.
#include "simulation.hpp"
#include "decode.hpp"
#include "drawing.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <random>

using namespace attune;
using Catch::Approx;

namespace {

constexpr simulated::network slow{.bytes = 100, .latency = 1};

simulated::schedule of_two(double own, double with_others) {
    simulated::schedule made{.computing = {{own, with_others}, {own}}, .transfers = {{1, 0, 0, 500}}, .messages = 2};
    made.useful = 2 * own + with_others;
    return made;
}

mpi::layout layout_of(const mpi::work_table& work, const mpi::chunks& tokens, int rank, int ranks,
                      mpi::arrangement how) {
    mpi::planning what{.tokens = tokens.tokens(), .layout = how};
    what.speed.flops = 1e9;
    mpi::exchange_plan graph;
    graph.variant = "test", graph.bytes = {.keys = 1024, .results = 1024}, graph.travellers = 2;
    return {what, rank, ranks, tokens, {}, {work}, {graph}};
}

mpi::work_table drawn_table(int count) {
    std::mt19937 random(11);
    mpi::work_table work{count, 1e5, {}};
    for (int pair = 0; pair < count * count; ++pair) work.units.push_back(random() % 4 == 0 ? 1 + random() % 50 : 0);
    return work;
}

}  // namespace

TEST_CASE("keys arrive while a node computes, or it waits for them") {
    // Asking takes a second, the way another one, the message five; the agreement two.
    CHECK(simulated::simulate(of_two(20, 3), slow).seconds == Approx(25));
    CHECK(simulated::simulate(of_two(20, 3), slow).waiting == 0);
    const simulated::outcome waited = simulated::simulate(of_two(4, 3), slow);
    CHECK(waited.seconds == Approx(7 + 3 + 2));
    CHECK(waited.waiting == Approx(3));
    CHECK(waited.efficiency == Approx((4 + 4 + 3) / 24.0));
}

TEST_CASE("a port carries one message at a time, at both ends") {
    simulated::schedule one_sends{.computing = {{0}, {0, 1}, {0, 1}}};
    one_sends.transfers = {{0, 1, 0, 500}, {0, 2, 0, 500}};
    const double agreed = 2 * std::log2(3);
    CHECK(simulated::simulate(one_sends, slow).seconds == Approx(1 + 5 + 5 + 1 + 1 + agreed));
    simulated::schedule one_receives{.computing = {{0, 1}, {0}, {0}}};
    one_receives.transfers = {{1, 0, 0, 500}, {2, 0, 0, 500}};
    CHECK(simulated::simulate(one_receives, slow).seconds == Approx(1 + 1 + 5 + 5 + 1 + agreed));
    // Messages to other nodes are carried at the same time.
    simulated::schedule around{.computing = {{0, 1}, {0, 1}, {0, 1}}};
    around.transfers = {{0, 1, 0, 500}, {1, 2, 0, 500}, {2, 0, 0, 500}};
    CHECK(simulated::simulate(around, slow).seconds == Approx(1 + 1 + 5 + 1 + agreed));
}

TEST_CASE("the second stage is asked for when the first one is there") {
    simulated::schedule two{.computing = {{0, 10, 1}, {0}}};
    two.transfers = {{1, 0, 0, 500}, {1, 0, 1, 500}};
    CHECK(simulated::simulate(two, slow).seconds == Approx(7 + 10 + 1 + 2));
    two.computing[0][1] = 2;
    CHECK(simulated::simulate(two, slow).seconds == Approx(7 + 7 + 1 + 2));
}

TEST_CASE("a rack's links are shared by what leaves it") {
    simulated::schedule four{.computing = {{0}, {0}, {0, 1}, {0, 1}}};
    four.transfers = {{0, 2, 0, 500}, {1, 3, 0, 500}};
    simulated::network racks = slow;
    racks.rack = 2;
    const double agreed = 2 * std::log2(4);
    CHECK(simulated::simulate(four, racks).seconds == Approx(1 + 1 + 5 + 2.5 + 1 + agreed));
    racks.oversubscription = 4;
    CHECK(simulated::simulate(four, racks).seconds == Approx(1 + 1 + 10 + 10 + 1 + agreed));
    four.transfers = {{0, 1, 0, 500}, {2, 3, 0, 500}}, four.computing = {{0}, {0, 1}, {0}, {0, 1}};
    CHECK(simulated::simulate(four, racks).seconds == Approx(1 + 1 + 5 + 1 + agreed));
}

TEST_CASE("a simulated call sends what the plans of all ranks send, in their order") {
    constexpr int ranks = 6;
    const mpi::chunks tokens = mpi::cut(600, ranks);
    const mpi::work_table work = drawn_table(tokens.count());
    for (const auto how : {mpi::arrangement::zigzag, mpi::arrangement::greedy, mpi::arrangement::best}) {
        const auto plan = [&](int rank) { return layout_of(work, tokens, rank, ranks, how); };
        const simulated::schedule all = simulated::schedule_of(plan(0), work);
        std::int64_t messages = 0;
        double computed = 0;
        for (int r = 0; r < ranks; ++r) {
            const mpi::layout of_rank = plan(r);
            const mpi::exchange_plan& graph = of_rank.graphs()[0];
            messages += graph.messages_received();
            computed += graph.work / 1e9;
            CHECK(all.computing[static_cast<std::size_t>(r)].size() == graph.stages.size() + 1);
            std::vector<std::tuple<int, int, double>> planned, sent;
            for (const auto& [stage, run] : graph.sends)
                planned.emplace_back(stage, run.rank, 1024.0 * static_cast<double>(run.count));
            for (const simulated::transfer& each : all.transfers)
                if (each.from == r) sent.emplace_back(each.stage, each.to, each.bytes);
            CHECK(sent == planned);
        }
        CHECK(all.messages == messages);
        CHECK(all.useful == Approx(computed));
        const double jitter = simulated::simulate(simulated::schedule_of(plan(0), work, 0.5), {}).seconds,
                     none = simulated::simulate(all, {}).seconds;
        CHECK((jitter > none && jitter < 1.5 * none));
        CHECK(simulated::simulate(all, {}).efficiency < 1);
    }
}

TEST_CASE("decode goes down a tree and back, as the plans of all ranks say") {
    const auto plans = [](int ranks) {
        mpi::planning what{.tokens = 400, .queries = 1};
        what.speed = {.flops = 1e9, .merged = 30, .read = 1000};
        mpi::exchange_plan graph;
        graph.bytes.keys = 100, graph.state_bytes = 500;
        std::vector<mpi::layout> all;
        for (int rank = 0; rank < ranks; ++rank)
            all.emplace_back(what, rank, ranks, mpi::cut(400, ranks), std::vector<int>(), false, std::vector{graph});
        return all;
    };
    // Four nodes read ten seconds each; a message takes one and then five, joining 50. Two levels each way.
    const auto four = plans(4);
    const simulated::decoded tree = simulated::tree_of_states(four, slow);
    CHECK(tree.seconds == Approx(10 + 2 * (6 + 50) + 2 * 6 + 2 * 2));
    CHECK(tree.bytes == 6 * 500);
    CHECK(tree.messages == 6);
    CHECK(simulated::ring_of_states(four, slow).seconds == Approx(10 + 3 * (6 + 50) + 2 * 6 + 4));
    CHECK(simulated::ring_of_keys(four, slow).seconds == Approx(10 + 3 * (1 + 100) + 4));
    CHECK(simulated::ring_of_keys(four, slow).bytes == 4 * 3 * 10000);
    const auto one = plans(1);
    for (const auto way : {simulated::tree_of_states, simulated::ring_of_states, simulated::ring_of_keys})
        CHECK(way(one, slow).seconds == Approx(40));
}

TEST_CASE("a drawing has a square for each pair that sends") {
    const std::string all = simulated::drawing(of_two(1, 1), "two");
    CHECK(all.find("1 to 0: 500 bytes") != std::string::npos);
    CHECK(all.find("0 to 1") == std::string::npos);
    CHECK(all.ends_with("</svg>\n"));
}

TEST_CASE("nodes that share heads exchange rows before and after, and otherwise only with those of the same heads") {
    constexpr int ranks = 8, parts = 2;
    const mpi::chunks tokens = mpi::cut(1600, ranks);
    const mpi::work_table work = drawn_table(tokens.count());
    const auto plan = [&](int rank) {
        mpi::planning what{.heads = 4, .key_heads = 2, .tokens = tokens.tokens(), .layout = mpi::arrangement::zigzag};
        what.head_parts = parts, what.speed.flops = 1e9;
        mpi::exchange_plan graph;
        graph.variant = "test", graph.travellers = 2, graph.rows_in = 3, graph.rows_out = 2;
        graph.bytes = {.keys = 1024, .results = 1024, .rows_in = 4096, .rows_out = 2048};
        return mpi::layout(what, rank, ranks, tokens, {}, {work}, {graph});
    };
    const mpi::layout first = plan(0);
    mpi::work_table share = work;
    share.flops /= parts;
    const simulated::schedule all = simulated::schedule_of(*first.of_same_heads(), share);
    std::int64_t messages = 0, sent = 0, received = 0;
    double computed = 0, bytes = 0, by_heads = 0;
    for (int r = 0; r < ranks; ++r) {
        const mpi::layout of_rank = plan(r);
        const mpi::exchange_plan& graph = of_rank.graphs()[0];
        CHECK(of_rank.hash() == first.hash());
        messages += graph.messages_received(), sent += graph.bytes_sent(), received += graph.bytes_received();
        computed += graph.work / 1e9, by_heads += static_cast<double>(graph.head_bytes_sent);
        CHECK(of_rank.positions().size() == 200);
    }
    for (const simulated::transfer& each : all.transfers) bytes += each.bytes;
    CHECK(sent == received);
    CHECK(static_cast<double>(sent) == Approx(parts * bytes + by_heads));
    CHECK(messages == parts * all.messages + ranks * (parts - 1) * (3 + 2));
    CHECK(parts * all.useful == Approx(computed));
    const simulated::head_exchange more = simulated::head_exchange_of(first);
    CHECK(more.bytes == Approx(200 * (2048 + 1024)));
    const simulated::outcome inside = simulated::simulate(all, slow), whole = simulated::simulate(first, all, slow);
    CHECK(whole.seconds == Approx(inside.seconds + more.bytes / slow.bytes + 2 * slow.latency));
    CHECK(whole.efficiency * whole.seconds == Approx(inside.efficiency * inside.seconds));
}
