// Ranks that share the heads of their tokens, as threads of one process, against one call of the reference.
#include "../shards/variants.hpp"
#include "calls.hpp"
#include "local_transport.hpp"
#include "on_ranks.hpp"

#include <attune/mpi/layouts.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstdio>
#include <mutex>
#include <set>
#include <string>

using namespace attune;

namespace {

template <const auto& Whole, const auto& Shard>
void check(const char* name, const support::shape& shape, const std::vector<std::string>& deciding,
           const std::vector<std::int32_t>& lengths = {}) {
    const graph_ir of_whole = dsl::ir_of<Whole>, shard = dsl::ir_of<Shard>;
    const whole_call whole(of_whole, shape, 7, lengths);
    double worst = 0;
    for (const auto& [ranks, parts] :
         {std::pair(2, 2), std::pair(4, 4), std::pair(4, 2), std::pair(6, 2), std::pair(8, 4)})
        for (const auto how : {mpi::arrangement::best, mpi::arrangement::zigzag, mpi::arrangement::striped}) {
            CAPTURE(name, ranks, parts);
            std::mutex one;
            on_ranks(ranks, {}, [&, ranks = ranks, parts = parts](std::unique_ptr<mpi::transport> carrier) {
                mpi::context world(std::move(carrier));
                mpi::planning what = planning_of(shape);
                what.layout = how, what.head_parts = parts;
                auto graphs = to_plan<Shard>(whole.call, deciding);
                for (const auto& each : whole.call.arguments())
                    if (each.name == "kv_lengths") graphs[0].given.push_back({.name = "lengths", .view = each.view});
                const mpi::layout plan = mpi::detail::plan(world, what, graphs, {.threads = 1});
                expect(plan.head_parts() == parts && plan.of_same_heads()->ranks() == ranks / parts);
                arguments_of_rank mine(whole.call, of_whole, shard, whole.expected, plan.positions());
                const mpi::prepared_call call(
                    mpi::detail::prepare(world, plan, detail::table_of<Shard>(), mine.all, {.threads = 1}, true));
                const mpi::exchange_plan& planned = plan.graphs()[0];
                for (int times = 0; times < 2; ++times)
                    expect(call() == mpi::traffic{planned.bytes_sent(), planned.bytes_received(),
                                                  planned.messages_sent(), planned.messages_received()});
                const std::lock_guard lock(one);
                worst = std::max(worst, mine.largest_difference());
            });
        }
    std::printf("%s: largest error %.1e\n", name, worst);
    CHECK(worst < 2e-5);
}

}  // namespace

TEST_CASE("ranks that share heads come to one call, alone and with others of the same heads") {
    const support::shape shape{.batches = 2, .heads = 8, .key_heads = 4, .queries = 203, .keys = 203};
    check<sharded::windowed, sharded::windowed_shard>("window, slopes, sinks", shape, {});
    check<sharded::windowed, sharded::windowed_shard>("the same, lengths", shape, {}, {203, 88});
    check<sharded::documents, sharded::documents_shard>("documents, bias", shape, {"document"});
    check<sharded::sigmoid_attention, sharded::sigmoid_shard>("causal sigmoids, dropped by a seed", shape, {});
    const support::shape few{.heads = 4, .key_heads = 4, .queries = 5, .keys = 5};  // fewer tokens than ranks
    check<sharded::windowed, sharded::windowed_shard>("five tokens", few, {});
}

TEST_CASE("what heads cannot be shared by is refused by all ranks") {
    const support::shape shape{.heads = 8, .key_heads = 2, .queries = 90, .keys = 90};
    const auto refusal_of = [&]<const auto & Whole, const auto & Shard>(const auto& change,
                                                                        const attune::options& how) {
        const whole_call whole(dsl::ir_of<Whole>, shape, 3);
        std::string thrown[4];
        on_ranks(4, {}, [&](std::unique_ptr<mpi::transport> carrier) {
            mpi::context world(std::move(carrier));
            mpi::planning what = planning_of(shape);
            change(what, world.rank());
            try {
                mpi::detail::plan(world, what, to_plan<Shard>(whole.call, {}), how);
            } catch (const error& refusal) {
                thrown[world.rank()] = refusal.what();
            }
            mpi::detail::plan(world, planning_of(shape), to_plan<Shard>(whole.call, {}), {});
        });
        for (const std::string& each : thrown) CHECK(each == thrown[0]);
        return thrown[0];
    };
    const auto refuses = [&](std::string_view sentence, const auto& change, const attune::options& how = {}) {
        const std::string said =
            refusal_of.template operator()<sharded::windowed, sharded::windowed_shard>(change, how);
        INFO(said);
        CHECK(said.find(sentence) != std::string::npos);
    };
    refuses("expected ranks, heads and key heads that 4 head_parts divide evenly, got 4, 8 and 2; try",
            [](auto& what, int) { what.head_parts = 4; });
    refuses("expected ranks, heads and key heads that 3 head_parts divide evenly, got 4, 8 and 2; try",
            [](auto& what, int) { what.head_parts = 3; });
    refuses("expected ranks that share heads, or 0, got -1", [](auto& what, int) { what.head_parts = -1; });
    refuses("expected one number of head_parts on all ranks, got 2 on 0 to 2 and none on 3",
            [](auto& what, int rank) { what.head_parts = rank < 3 ? 2 : 0; });
    refuses("expected options::deterministic or head_parts, got both", [](auto& what, int) { what.head_parts = 2; },
            {.deterministic = true});
    refuses("expected no head_parts in a plan of decode, where keys stay, got 2",
            [](auto& what, int) { what.queries = 1, what.head_parts = 2; });
    refuses("expected positions that the plan finds where ranks share heads, got the caller's positions",
            [](auto& what, int) { what.layout = mpi::arrangement::own, what.head_parts = 2; });
    const std::string said = refusal_of.template operator()<sharded::windowed, sharded::windowed_gradient_shard>(
        [](auto& what, int) { what.head_parts = 2; }, {});
    CHECK(said.find("expected variants where ranks share heads, got sharded::windowed_gradient_shard, which makes "
                    "gradients; try .head_parts = 1") != std::string::npos);
}

TEST_CASE("a call is refused when it is prepared, by the caller's tensors, whether ranks share heads or not") {
    const support::shape shape{.heads = 8, .key_heads = 2, .queries = 90, .keys = 90};
    const whole_call whole(dsl::ir_of<sharded::documents>, shape, 3);
    const std::vector<std::string> deciding{"document"};
    const auto said_by_all = [&](int parts, std::string_view name, const auto& change) {
        std::string said[4];
        on_ranks(4, {}, [&](std::unique_ptr<mpi::transport> carrier) {
            mpi::context world(std::move(carrier));
            mpi::planning what = planning_of(shape);
            what.head_parts = parts;
            const mpi::layout plan =
                mpi::detail::plan(world, what, to_plan<sharded::documents_shard>(whole.call, deciding), {.threads = 1});
            arguments_of_rank mine(whole.call, dsl::ir_of<sharded::documents>, dsl::ir_of<sharded::documents_shard>,
                                   whole.expected, plan.positions());
            change(std::ranges::find(mine.all, name, &detail::named_argument::name)->view);
            try {
                mpi::detail::prepare(world, plan, detail::table_of<sharded::documents_shard>(), mine.all,
                                     {.threads = 1});
            } catch (const error& refusal) {
                said[world.rank()] = refusal.what();
            }
        });
        for (const std::string& each : said) CHECK(each == said[0]);
        return said[0];
    };
    const std::vector<std::int32_t> others(90, 5);
    for (const int parts : {1, 2}) {
        std::string said =
            said_by_all(parts, "document", [&](tensor& document) { document = tensor(others.data(), {90}); });
        INFO(said);
        CHECK(said.find("expected document as planned, because it decides who needs which keys") != std::string::npos);
        std::int64_t least = 90;
        std::mutex one;
        said = said_by_all(parts, "lse", [&](tensor& lse) {
            const std::lock_guard lock(one);
            least = std::min(least, lse.extent(2));
            lse = tensor(element_type::bf16, lse.mutable_data(), lse.shape());
        });
        INFO(said);
        CHECK(said.find("expected f32 elements in lse, got lse: bf16 (1, 8, " + std::to_string(least) + ")") !=
              std::string::npos);
    }
}

TEST_CASE("a plan weighs sharing heads by the same cost model") {
    // Causal: a rank's share of all queries, keys and results is less than most of the keys.
    const support::shape shape{.heads = 8, .key_heads = 8, .queries = 512, .keys = 512};
    const mpi::detail::graph_to_plan graph{detail::table_of<sharded::sigmoid_shard>(), {}};
    for (const double bytes : {1e6, 1e9, 1e12}) {
        CAPTURE(bytes);
        std::mutex one;
        std::set<int> parts;
        std::string said;
        on_ranks(4, {}, [&](std::unique_ptr<mpi::transport> carrier) {
            mpi::context world(std::move(carrier));
            mpi::planning what = planning_of(shape);
            what.head_parts = 0, what.speed.bytes = bytes, what.speed.flops = 1e9;
            const mpi::layout plan = mpi::detail::plan(world, what, std::span(&graph, 1), {.threads = 1});
            const mpi::exchange_plan& planned = plan.graphs()[0];
            expect(planned.predicted.head_parts == plan.head_parts());
            for (const auto& [how, its] : planned.considered) expect(0.99 * planned.predicted.seconds < its.seconds);
            const std::lock_guard lock(one);
            parts.insert(plan.head_parts()), said = plan.explain().text();
        });
        INFO(said);
        CHECK(parts.size() == 1);
        if (bytes == 1e6) CHECK(parts == std::set<int>{4});
        for (const char* const each : {"contiguous: ", "contiguous, 2 share heads: ", "contiguous, 4 share heads: "})
            CHECK(said.find(each) != std::string::npos);
    }
}

TEST_CASE("each death among ranks that share heads is the same sentence on all survivors, by the deadline") {
    const support::shape shape{.heads = 4, .key_heads = 4, .queries = 90, .keys = 90};
    const whole_call whole(dsl::ir_of<sharded::windowed>, shape, 3);
    for (int dead = 0; dead < 4; ++dead)
        for (int at = 0; at < 24; at += 2) {
            CAPTURE(dead, at);
            std::set<std::string> thrown;
            std::mutex one;
            on_ranks(4, {.dies = dead, .dies_at = at}, [&](std::unique_ptr<mpi::transport> carrier) {
                mpi::context world(std::move(carrier));
                std::string sentence;
                try {
                    mpi::planning what = planning_of(shape);
                    what.head_parts = 2;
                    const mpi::layout plan =
                        mpi::detail::plan(world, what, to_plan<sharded::windowed_shard>(whole.call, {}), {});
                    arguments_of_rank mine(whole.call, dsl::ir_of<sharded::windowed>,
                                           dsl::ir_of<sharded::windowed_shard>, whole.expected, plan.positions());
                    for (int call = 0; call < 4; ++call)
                        mpi::detail::run(world, plan, detail::table_of<sharded::windowed_shard>(), mine.all,
                                         {.threads = 1});
                } catch (const mpi::context_failure& failure) {
                    sentence = failure.what();
                    expect(world.carrier().now() < 61);
                }
                const std::lock_guard lock(one);
                if (world.rank() != dead) thrown.insert(sentence);
            });
            REQUIRE(thrown.size() == 1);
            CHECK(thrown.begin()->find("rank " + std::to_string(dead)) != std::string::npos);
        }
}
