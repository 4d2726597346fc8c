// Gradients over several ranks, as threads of one process, against the reference's gradient of the whole sequence.
#include "../shards/variants.hpp"
#include "calls.hpp"
#include "gradient_calls.hpp"
#include "local_transport.hpp"
#include "on_ranks.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

using namespace attune;

namespace {

template <const auto& Shard>
std::vector<mpi::detail::graph_to_plan> graph_with(const whole_gradient_call& of,
                                                   const std::vector<std::string>& deciding) {
    auto graphs = to_plan<Shard>(of.drawn, deciding);
    for (const auto& each : of.drawn.arguments())
        if (each.name == "kv_lengths") graphs[0].given.push_back({.name = "lengths", .view = each.view});
    return graphs;
}

double scattered(int from, int to, std::size_t bytes, int index) {
    return static_cast<double>((static_cast<std::size_t>(from * 7 + to * 13 + index * 29) + bytes) % 11) * 1e-3;
}

template <const auto& Forward, const auto& Gradient, const auto& Shard>
void check(const char* name, const support::shape& shape, const std::vector<std::string>& deciding,
           const std::vector<std::int32_t>& lengths = {}) {
    const graph_ir shard = dsl::ir_of<Shard>;
    const whole_gradient_call whole(dsl::ir_of<Forward>, dsl::ir_of<Gradient>, shape, 7, lengths);
    const auto& table = detail::table_of<Shard>();
    double worst = 0;
    std::int64_t sent = 0;
    for (int ranks = 1; ranks <= 5; ++ranks)
        for (const auto how : {mpi::arrangement::best, mpi::arrangement::zigzag, mpi::arrangement::striped})
            for (const int stages : {1, 3}) {
                CAPTURE(name, ranks, stages);
                std::mutex one;
                std::set<std::vector<float>> of_whole;
                on_ranks(ranks, {.delay = scattered, .eager = 100}, [&](std::unique_ptr<mpi::transport> carrier) {
                    mpi::context world(std::move(carrier));
                    mpi::planning what = planning_of(shape);
                    what.layout = how, what.stages = stages;
                    const mpi::layout plan =
                        mpi::detail::plan(world, what, graph_with<Shard>(whole, deciding), {.threads = 1});
                    gradient_of_rank mine(whole, shard, plan.positions());
                    const mpi::prepared_call call(
                        mpi::detail::prepare(world, plan, table, mine.all, {.threads = 1}, true));
                    const mpi::exchange_plan& planned = plan.graphs()[0];
                    const mpi::traffic as_planned{planned.bytes_sent(), planned.bytes_received(),
                                                  planned.messages_sent(), planned.messages_received()};
                    expect(call() == as_planned);
                    const auto first = mine.outputs();
                    mine.forget();
                    expect(call() == as_planned);
                    for (auto at = first.begin(); const auto& again : mine.outputs()) {  // the same bits
                        const auto& before = *at++;
                        expect(again.empty() ||
                               std::memcmp(before.data(), again.data(), again.size() * sizeof(float)) == 0);
                    }
                    const std::lock_guard lock(one);
                    worst = std::max(worst, mine.largest_difference());
                    of_whole.insert(mine.of_whole());
                    sent += as_planned.bytes_sent;
                });
                CHECK(of_whole.size() == 1);  // on all ranks
            }
    std::printf("%s: largest error %.1e, %lld bytes sent\n", name, worst, static_cast<long long>(sent));
    CHECK(worst < 2e-5);
    CHECK(sent > 0);
}

}  // namespace

TEST_CASE("gradients over 1 to 5 ranks come to those of one call, and send what was planned") {
    using namespace sharded;
    const support::shape shape{.batches = 2, .heads = 4, .key_heads = 2, .queries = 203, .keys = 203};
    check<windowed, windowed_gradient, windowed_gradient_shard>("window, slopes, sinks", shape, {});
    check<windowed, windowed_gradient, windowed_gradient_shard>("the same, lengths", shape, {}, {203, 77});
    check<documents, documents_gradient, documents_gradient_shard>("documents", shape, {"document"});
    check<sigmoid_attention, sigmoid_gradient, sigmoid_gradient_shard>("causal sigmoids", shape, {});
    const support::shape few{.heads = 2, .key_heads = 1, .queries = 3, .keys = 3};  // fewer than ranks
    check<windowed, windowed_gradient, windowed_gradient_shard>("three tokens", few, {});
}

TEST_CASE("one layout serves a variant and its gradient") {
    using namespace sharded;
    const support::shape shape{.batches = 1, .heads = 4, .key_heads = 2, .queries = 150, .keys = 150};
    const whole_call forward(dsl::ir_of<windowed>, shape, 7);
    const whole_gradient_call whole(dsl::ir_of<windowed>, dsl::ir_of<windowed_gradient>, shape, 7);
    on_ranks(3, {}, [&](std::unique_ptr<mpi::transport> carrier) {
        mpi::context world(std::move(carrier));
        const mpi::layout plan = mpi::plan<windowed_shard, windowed_gradient_shard>(world, planning_of(shape),
                                                                                    attune::options{.threads = 1});
        arguments_of_rank mine(forward.call, dsl::ir_of<windowed>, dsl::ir_of<windowed_shard>, forward.expected,
                               plan.positions());
        gradient_of_rank of_loss(whole, dsl::ir_of<windowed_gradient_shard>, plan.positions());
        mpi::detail::run(world, plan, attune::detail::table_of<windowed_shard>(), mine.all, {.threads = 1}, true);
        mpi::detail::run(world, plan, attune::detail::table_of<windowed_gradient_shard>(), of_loss.all, {.threads = 1},
                         true);
        expect(mine.largest_difference() < 2e-5 && of_loss.largest_difference() < 2e-5);
        expect(plan.explain().text().find("windowed_gradient_shard") != std::string::npos);
    });
}

namespace {

/// The sentence that both of two ranks throw.
template <class Wrong> std::string refusal_of(const Wrong& wrong) {
    const support::shape shape{.heads = 2, .key_heads = 1, .queries = 90, .keys = 90};
    const whole_gradient_call whole(dsl::ir_of<sharded::windowed>, dsl::ir_of<sharded::windowed_gradient>, shape, 7);
    std::string thrown[2];
    on_ranks(2, {}, [&](std::unique_ptr<mpi::transport> carrier) {
        mpi::context world(std::move(carrier));
        const auto graphs = graph_with<sharded::windowed_gradient_shard>(whole, {});
        try {
            wrong(world, planning_of(shape), graphs, whole);
        } catch (const mpi::context_failure&) {
            throw;
        } catch (const error& refusal) {
            thrown[world.rank()] = refusal.what();
        }
        const mpi::layout plan = mpi::detail::plan(world, planning_of(shape), graphs, {});
        gradient_of_rank mine(whole, dsl::ir_of<sharded::windowed_gradient_shard>, plan.positions());
        mpi::detail::run(world, plan, attune::detail::table_of<sharded::windowed_gradient_shard>(), mine.all,
                         {.threads = 1});
        expect(mine.largest_difference() < 2e-5);
    });
    CHECK(thrown[0] == thrown[1]);
    return thrown[0];
}

}  // namespace

TEST_CASE("what gradients over ranks cannot do is refused by all ranks, and they go on") {
    const auto has = [](const std::string& sentence, std::string_view part) {
        INFO(sentence);
        CHECK(sentence.find(part) != std::string::npos);
    };
    has(refusal_of([](mpi::context& world, mpi::planning what, auto& graphs, auto&) {
            what.queries = 1;
            mpi::detail::plan(world, what, graphs, {});
        }),
        "expected variants in a plan of decode, got sharded::windowed_gradient_shard; try a plan without .queries");
    has(refusal_of([](mpi::context& world, const mpi::planning& what, auto& graphs, auto&) {
            mpi::detail::plan(world, what, graphs, {.deterministic = true});
        }),
        "expected no gradients in a plan with options::deterministic");
    has(refusal_of([](mpi::context& world, const mpi::planning& what, auto& graphs, auto& whole) {
            const mpi::layout plan = mpi::detail::plan(world, what, graphs, {});
            gradient_of_rank mine(whole, dsl::ir_of<sharded::windowed_gradient_shard>, plan.positions());
            tensor& dk = std::ranges::find(mine.all, "dk", &detail::named_argument::name)->view;
            if (world.rank() == 1) dk = mpi::detail::rows_of(dk, 2, 0, dk.extent(2) - 1);
            mpi::detail::run(world, plan, attune::detail::table_of<sharded::windowed_gradient_shard>(), mine.all, {});
        }),
        "on rank 1: expected key extent");
}

TEST_CASE("each death in a gradient is the same sentence on all survivors, by the deadline") {
    using namespace sharded;
    const support::shape shape{.heads = 2, .key_heads = 1, .queries = 90, .keys = 90};
    const whole_gradient_call whole(dsl::ir_of<windowed>, dsl::ir_of<windowed_gradient>, shape, 7);
    for (const int ranks : {2, 3})
        for (int dead = 0; dead < ranks; ++dead)
            for (int at = 0; at < 16; ++at) {
                CAPTURE(ranks, dead, at);
                std::set<std::string> thrown;
                int succeeded = 0;
                std::mutex one;
                on_ranks(ranks, {.dies = dead, .dies_at = at}, [&](std::unique_ptr<mpi::transport> carrier) {
                    mpi::context world(std::move(carrier));
                    std::string sentence;
                    try {
                        const mpi::layout plan = mpi::detail::plan(world, planning_of(shape),
                                                                   graph_with<windowed_gradient_shard>(whole, {}), {});
                        gradient_of_rank mine(whole, dsl::ir_of<windowed_gradient_shard>, plan.positions());
                        for (int call = 0; call < 4; ++call)
                            mpi::detail::run(world, plan, attune::detail::table_of<windowed_gradient_shard>(), mine.all,
                                             {.threads = 1});
                    } catch (const mpi::context_failure& failure) {
                        sentence = failure.what();
                        expect(world.carrier().now() < 61);
                    }
                    const std::lock_guard lock(one);
                    if (world.rank() == dead) return;
                    if (sentence.empty())
                        ++succeeded;
                    else
                        thrown.insert(sentence);
                });
                CHECK(succeeded == 0);
                REQUIRE(thrown.size() == 1);
                CHECK(thrown.begin()->find("rank " + std::to_string(dead)) != std::string::npos);
            }
}
