// Calls over several ranks, as threads of one process, against one call of the reference over the whole sequence.
#include "../shards/variants.hpp"
#include "calls.hpp"
#include "local_transport.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <random>
#include <string>

using namespace attune;

namespace {

template <const auto& Whole, const auto& Shard>
void check(const char* name, const support::shape& shape, const std::vector<std::string>& deciding) {
    const graph_ir of_whole = dsl::ir_of<Whole>, shard = dsl::ir_of<Shard>;
    const whole_call whole(of_whole, shape, 7);
    double worst = 0;
    std::int64_t sent = 0;
    bool as_planned = true;
    for (int ranks = 1; ranks <= 5; ++ranks)
        for (const auto how :
             {mpi::arrangement::best, mpi::arrangement::zigzag, mpi::arrangement::striped, mpi::arrangement::affinity})
            for (const int stages : {1, 3}) {
                std::mutex one;
                mpi::run_local(ranks, {}, [&](std::unique_ptr<mpi::transport> carrier) {
                    mpi::context world(std::move(carrier));
                    mpi::planning what = planning_of(shape);
                    what.layout = how, what.stages = stages;
                    const auto graphs = to_plan<Shard>(whole.call, deciding);
                    const mpi::layout plan = mpi::detail::plan(world, what, graphs, {.threads = 1});
                    arguments_of_rank mine(whole.call, of_whole, shard, whole.expected, plan.positions());
                    const mpi::traffic done =
                        mpi::detail::run(world, plan, detail::table_of<Shard>(), mine.all, {.threads = 1}, true);
                    const std::lock_guard lock(one);
                    const mpi::exchange_plan& planned = plan.graphs()[0];
                    const auto bytes = static_cast<std::int64_t>(planned.bytes.keys);
                    as_planned = as_planned && done.bytes_received == bytes * planned.tokens_received() &&
                                 done.bytes_sent == bytes * planned.tokens_sent() &&
                                 done.messages_received == planned.messages_received() &&
                                 done.messages_sent == planned.messages_sent();
                    worst = std::max(worst, mine.largest_difference());
                    sent += done.bytes_sent;
                });
            }
    std::printf("%s: largest error %.1e, %lld bytes sent\n", name, worst, static_cast<long long>(sent));
    CHECK(worst < 2e-5);
    CHECK(as_planned);
    CHECK(sent > 0);
}

}  // namespace

TEST_CASE("calls over 1 to 5 ranks come to one call, and send what was planned") {
    const support::shape shape{.batches = 2, .heads = 4, .key_heads = 2, .queries = 203, .keys = 203};
    check<sharded::windowed, sharded::windowed_shard>("window, slopes, sinks", shape, {});
    check<sharded::documents, sharded::documents_shard>("documents", shape, {"document"});
    check<sharded::sigmoid_attention, sharded::sigmoid_shard>("causal sigmoids", shape, {});
}

namespace {

/// The sentence that both of two ranks throw; then the ranks make a call that is right.
template <class Wrong> std::string refusal_of(const Wrong& wrong) {
    const support::shape shape{.heads = 2, .key_heads = 1, .queries = 90, .keys = 90};
    const graph_ir of_whole = dsl::ir_of<sharded::documents>, shard = dsl::ir_of<sharded::documents_shard>;
    const whole_call whole(of_whole, shape, 3);
    const std::string deciding[] = {"document"};
    std::string thrown[2];
    double worst = 0;
    std::mutex one;
    mpi::run_local(2, {}, [&](std::unique_ptr<mpi::transport> carrier) {
        mpi::context world(std::move(carrier));
        const int rank = world.rank();
        auto graphs = to_plan<sharded::documents_shard>(whole.call, deciding);
        mpi::planning what = planning_of(shape);
        const mpi::layout good = mpi::detail::plan(world, what, graphs, {.threads = 1});
        arguments_of_rank mine(whole.call, of_whole, shard, whole.expected, good.positions());
        const auto right = mine.all;
        try {
            wrong(world, what, graphs, mine.all, good);
        } catch (const error& refusal) {
            thrown[rank] = refusal.what();
        }
        mpi::detail::run(world, good, detail::table_of<sharded::documents_shard>(), right, {.threads = 1});
        const std::lock_guard lock(one);
        worst = std::max(worst, mine.largest_difference());
    });
    CHECK(thrown[0] == thrown[1]);
    CHECK(worst < 2e-5);
    return thrown[0];
}

using given_arguments = std::vector<detail::named_argument>;
using graphs_to_plan = std::vector<mpi::detail::graph_to_plan>;

detail::named_argument& of_name(given_arguments& given, std::string_view name) {
    return *std::ranges::find(given, name, &detail::named_argument::name);
}

void has(const std::string& sentence, std::string_view part) {
    INFO(sentence);
    CHECK(sentence.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("what one rank would compute wrongly is refused by all of them, and they go on") {
    const auto& table = detail::table_of<sharded::documents_shard>();
    std::vector<std::int32_t> other(90);
    other[7] = 1;
    has(refusal_of([&](mpi::context& world, auto&, auto&, given_arguments& given, const mpi::layout& plan) {
            if (world.rank() == 1) of_name(given, "document").view = tensor(other.data(), {90});
            mpi::detail::run(world, plan, table, given, {});
        }),
        "expected document as planned, because it decides who needs which keys, got another value");
    has(refusal_of([&](mpi::context& world, mpi::planning what, graphs_to_plan& graphs, given_arguments& given, auto&) {
            what.heads = 1;
            mpi::detail::run(world, mpi::detail::plan(world, what, graphs, {}), table, given, {});
        }),
        "expected head extent 1 in q, as planned");
    has(refusal_of([&](mpi::context& world, mpi::planning what, graphs_to_plan& graphs, auto&, auto&) {
            graphs[0].given.clear();
            mpi::detail::plan(world, what, graphs, {});
        }),
        "expected document in the plan, because it decides what is visible, got none");
    has(refusal_of([&](mpi::context& world, mpi::planning what, graphs_to_plan& graphs, auto&, auto&) {
            const double weight[] = {world.rank() == 0 ? 0.12345 : 0.12349};
            what.weights = weight;
            mpi::detail::plan(world, what, graphs, {});
        }),
        "0.12349");
    std::vector<std::int32_t> own(45);
    has(refusal_of([&](mpi::context& world, mpi::planning what, graphs_to_plan& graphs, auto&, auto&) {
            what.positions = own;
            mpi::detail::plan(world, what, graphs, {});
        }),
        "expected no positions, or those of a layout of your own, got 45 positions; try .layout = arrangement::own");
    has(refusal_of([&](mpi::context& world, mpi::planning what, graphs_to_plan& graphs, auto&, auto&) {
            if (world.rank() == 0) what.layout = mpi::arrangement::striped;
            mpi::detail::plan(world, what, graphs, {});
        }),
        "striped");
    has(refusal_of([&](mpi::context& world, mpi::planning what, graphs_to_plan& graphs, given_arguments& given,
                       const mpi::layout& good) {
            what.layout = mpi::arrangement::zigzag;
            const mpi::layout zigzag = mpi::detail::plan(world, what, graphs, {});
            mpi::detail::run(world, world.rank() ? zigzag : good, table, given, {});
        }),
        "layout");
    has(refusal_of([&](mpi::context& world, auto&, auto&, given_arguments& given, const mpi::layout& plan) {
            tensor& k = of_name(given, "k").view;
            if (world.rank() == 1) k = tensor(static_cast<const float*>(k.data()), {1, 1, 44, 32});
            mpi::detail::run(world, plan, table, given, {});
        }),
        "on rank 1: expected key extent 44 in v, as in k");
    has(refusal_of([&](mpi::context& world, auto&, auto&, given_arguments& given, const mpi::layout& plan) {
            std::erase_if(given, [](const auto& each) { return each.name == "lse"; });
            mpi::detail::run(world, plan, table, given, {});
        }),
        "expected a tensor for the output lse");
    has(refusal_of([&](mpi::context& world, auto&, auto&, given_arguments& given, const mpi::layout& plan) {
            mpi::detail::run(world, plan, detail::table_of<sharded::windowed_shard>(), given, {});
        }),
        "expected a call of sharded::documents_shard, for which the layout was planned");
    for (const auto& [positions, sentence] : {std::pair(std::vector<std::int32_t>{0, 1, 2, 0}, "again on 0"),
                                              {{0, 90}, "got 90 on 0"},
                                              {{0}, "got 2 positions"}})
        has(refusal_of([&](mpi::context& world, mpi::planning what, graphs_to_plan& graphs, auto&, auto&) {
                const std::vector<std::int32_t> of_other{89};
                what.layout = mpi::arrangement::own, what.positions = world.rank() ? of_other : positions;
                mpi::detail::plan(world, what, graphs, {});
            }),
            sentence);
}

TEST_CASE("rates and weights with which no model can count are refused") {
    // Both have the same numbers, in this order.
    has(refusal_of([&](mpi::context& world, mpi::planning what, graphs_to_plan& graphs, auto&, auto&) {
            what.speed = {2, 1, world.rank() ? 4.0 : 1.0, 4};
            mpi::detail::plan(world, what, graphs, {});
        }),
        "one rates on all ranks, got flops 2, bytes 1, latency 1, merged 4, read 2.5e+10 on 0 and flops 2, bytes "
        "1, latency 4");
    const double nan = std::nan("");
    for (const mpi::rates& speed : {mpi::rates{.flops = -1},
                                    {.flops = nan},
                                    {.bytes = 0},
                                    {.bytes = -1},
                                    {.bytes = infinity},
                                    {.latency = -1},
                                    {.latency = nan},
                                    {.merged = 0},
                                    {.read = 0},
                                    {.merged = -infinity}})
        has(refusal_of([&](mpi::context& world, mpi::planning what, graphs_to_plan& graphs, auto&, auto&) {
                if (world.rank() == 1) what.speed = speed;
                mpi::detail::plan(world, what, graphs, {});
            }),
            "on rank 1: expected finite rates of at least 0, and bytes, merged and read above 0, got flops ");
    for (const double weight : {0.0, -0.5, nan, static_cast<double>(infinity)})
        has(refusal_of([&](mpi::context& world, mpi::planning what, graphs_to_plan& graphs, auto&, auto&) {
                if (world.rank() == 1) what.weights = std::span(&weight, 1);
                mpi::detail::plan(world, what, graphs, {});
            }),
            "on rank 1: expected finite weights of at least 0, and one above 0, got ");
}

TEST_CASE("what decides which kernel runs, and how, is alike on all ranks") {
    for (const auto& [change, sentence] :
         {std::pair(
              +[](mpi::planning& what, options&) { what.depth = 32; },
              "one depth, value depth and element on all ranks, got 0, 0 and any on 0 and 32, 0 and any on 1"),
          {+[](mpi::planning& what, options&) { what.value_depth = 32; }, "0, 32 and any on 1"},
          {+[](mpi::planning& what, options&) { what.element = element_type::f32; }, "0, 0 and f32 on 1"},
          {+[](mpi::planning&, options& how) { how.deterministic = true; },
           "one options::deterministic on all ranks, got false on 0 and true on 1"},
          {+[](mpi::planning&, options& how) {
               how.target = detail::table_of<sharded::documents_shard>().kernels[0].target;
           },
           "one options::target on all ranks, got none on 0 and "}})
        has(refusal_of([&](mpi::context& world, mpi::planning what, graphs_to_plan& graphs, auto&, auto&) {
                options how{.threads = 1};
                if (world.rank() == 1) change(what, how);
                mpi::detail::plan(world, what, graphs, how);
            }),
            sentence);
    has(refusal_of([&](mpi::context& world, auto&, auto&, given_arguments& given, const mpi::layout& plan) {
            mpi::detail::run(world, plan, detail::table_of<sharded::documents_shard>(), given,
                             {.deterministic = world.rank() == 0});
        }),
        "one options::deterministic on all ranks, got true on 0 and false on 1; try the same options");
}

TEST_CASE("ranks have the positions that the caller says, in any order, and pass arguments by name") {
    using namespace attune::dsl;
    const support::shape shape{.heads = 2, .key_heads = 2, .queries = 120, .keys = 120};
    const whole_call whole(ir_of<sharded::windowed>, shape, 5);
    std::vector<std::vector<std::int32_t>> of_rank(3);
    std::mt19937 random(1);
    for (std::int32_t t = 0; t < 120; ++t) of_rank[random() % 2 * 2].push_back(t);  // nothing on the second
    std::ranges::shuffle(of_rank[0], random);
    double worst = 0;
    std::mutex one;
    mpi::run_local(3, {}, [&](std::unique_ptr<mpi::transport> carrier) {
        mpi::context world(std::move(carrier));
        const auto& own = of_rank[static_cast<std::size_t>(world.rank())];
        const mpi::layout plan = mpi::plan<sharded::windowed_shard>(
            world, {.heads = 2, .key_heads = 2, .tokens = 120, .layout = mpi::arrangement::own, .positions = own});
        arguments_of_rank mine(whole.call, ir_of<sharded::windowed>, ir_of<sharded::windowed_shard>, whole.expected,
                               own);
        const auto view = [&](std::string_view name) { return of_name(mine.all, name).view; };
        mpi::run<sharded::windowed_shard>(world, plan, q = view("q"), k = view("k"), v = view("v"),
                                          sharded::by_key = view("by_key"), sharded::slopes = view("slopes"),
                                          sharded::sinks = view("sinks"), out = view("out"), lse = view("lse"),
                                          attune::options{.threads = 1});
        const std::lock_guard lock(one);
        CHECK(std::ranges::equal(plan.positions(), own));
        worst = std::max(worst, mine.largest_difference());
    });
    CHECK(worst < 2e-5);
}

TEST_CASE("an argument that no planned graph has is refused") {
    mpi::run_local(1, {}, [](std::unique_ptr<mpi::transport> carrier) {
        mpi::context world(std::move(carrier));
        std::vector<float> slopes(2);
        CHECK_THROWS_WITH(mpi::plan<sharded::documents_shard>(world, {.heads = 2, .key_heads = 1, .tokens = 90},
                                                              sharded::slopes = tensor(slopes.data(), {2})),
                          Catch::Matchers::ContainsSubstring("inputs of the graphs that are planned, got slopes; try"));
    });
}
