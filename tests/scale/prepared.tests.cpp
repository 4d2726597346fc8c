// Calls over ranks that are prepared once and made many times.
#include "../shards/variants.hpp"
#include "calls.hpp"
#include "local_transport.hpp"
#include "on_ranks.hpp"

#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <mutex>
#include <string>

using namespace attune;

namespace {

constexpr support::shape small{.batches = 2, .heads = 4, .key_heads = 2, .queries = 150, .keys = 150};

double scattered(int from, int to, std::size_t bytes, int index) {
    return static_cast<double>((static_cast<std::size_t>(from * 7 + to * 13 + index * 29) + bytes) % 11) * 1e-3;
}

}  // namespace

TEST_CASE("a prepared call is made with what its tensors hold, as often as one likes") {
    const graph_ir of_whole = dsl::ir_of<sharded::sigmoid_attention>, shard = dsl::ir_of<sharded::sigmoid_shard>;
    const whole_call first(of_whole, small, 1), second(of_whole, small, 2);
    for (const int ranks : {1, 2, 3, 4})
        for (const int stages : {1, 2}) {
            CAPTURE(ranks, stages);
            double worst = 0;
            std::mutex one;
            mpi::run_local(ranks, {.delay = scattered, .eager = 100}, [&](std::unique_ptr<mpi::transport> carrier) {
                mpi::context world(std::move(carrier));
                mpi::planning what = planning_of(small);
                what.stages = stages;
                std::optional<mpi::layout> plan(
                    mpi::detail::plan(world, what, to_plan<sharded::sigmoid_shard>(first.call, {}), {.threads = 1}));
                const mpi::layout kept = *plan;
                arguments_of_rank mine(first.call, of_whole, shard, first.expected, kept.positions());
                const arguments_of_rank others[] = {{first.call, of_whole, shard, first.expected, kept.positions()},
                                                    {second.call, of_whole, shard, second.expected, kept.positions()}};
                const auto& table = detail::table_of<sharded::sigmoid_shard>();
                const mpi::prepared_call call(
                    mpi::detail::prepare(world, *plan, table, mine.all, {.threads = 1}, true));
                plan.reset();                               // the call has its own
                for (int times = 0; times < 70; ++times) {  // more than calls have tags
                    mine.hold_those_of(others[times % 2]);
                    mpi::traffic done{};
                    if (times % 10 == 7)
                        done = mpi::detail::run(world, kept, table, mine.all, {.threads = 1});
                    else
                        done = call();
                    const mpi::exchange_plan& planned = kept.graphs()[0];
                    expect(done.messages_sent == planned.messages_sent() &&
                           done.messages_received == planned.messages_received());
                    const std::lock_guard lock(one);
                    worst = std::max(worst, mine.largest_difference());
                }
            });
            CHECK(worst < 2e-5);
        }
}

namespace {

using given_arguments = std::vector<detail::named_argument>;

/// The sentence that both of two ranks throw. `context_failed`: whether the context makes no more calls.
struct refused {
    std::string sentence;
    bool context_failed{};
};
refused refusal_of(const std::function<void(mpi::context&, const mpi::layout&, given_arguments&)>& wrong) {
    const support::shape shape{.heads = 2, .key_heads = 1, .queries = 90, .keys = 90};
    const graph_ir of_whole = dsl::ir_of<sharded::documents>, shard = dsl::ir_of<sharded::documents_shard>;
    const whole_call whole(of_whole, shape, 3);
    const std::string deciding[] = {"document"};
    std::string thrown[2];
    bool failed[2]{};
    mpi::run_local(2, {}, [&](std::unique_ptr<mpi::transport> carrier) {
        mpi::context world(std::move(carrier));
        const int rank = world.rank();
        const mpi::layout plan =
            mpi::detail::plan(world, planning_of(shape), to_plan<sharded::documents_shard>(whole.call, deciding), {});
        arguments_of_rank mine(whole.call, of_whole, shard, whole.expected, plan.positions());
        const given_arguments right = mine.all;
        try {
            wrong(world, plan, mine.all);
        } catch (const error& refusal) {
            thrown[rank] = refusal.what();
        }
        try {
            mpi::prepared_call(mpi::detail::prepare(world, plan, detail::table_of<sharded::documents_shard>(), right,
                                                    {.threads = 1}))();
            expect(mine.largest_difference() < 2e-5);
        } catch (const mpi::context_failure&) {
            failed[rank] = true;
        }
    });
    CHECK(thrown[0] == thrown[1]);
    CHECK(failed[0] == failed[1]);
    return {thrown[0], failed[0]};
}

detail::named_argument& of_name(given_arguments& given, std::string_view name) {
    return *std::ranges::find(given, name, &detail::named_argument::name);
}

}  // namespace

TEST_CASE("what run refuses, prepare refuses on all ranks, and they go on") {
    const auto& table = detail::table_of<sharded::documents_shard>();
    std::vector<std::int32_t> other(90);
    other[7] = 1;
    const auto refuses = [](std::string_view sentence, const auto& wrong) {
        const refused by = refusal_of(wrong);
        INFO(by.sentence);
        CHECK(by.sentence.find(sentence) != std::string::npos);
        CHECK(!by.context_failed);
    };
    refuses("on rank 1: expected document as planned, because it decides who needs which keys, got another value",
            [&](mpi::context& world, const mpi::layout& plan, given_arguments& given) {
                if (world.rank() == 1) of_name(given, "document").view = tensor(other.data(), {90});
                mpi::detail::prepare(world, plan, table, given, {});
            });
    refuses("on rank 1: expected key extent 44 in v, as in k",
            [&](mpi::context& world, const mpi::layout& plan, given_arguments& given) {
                tensor& k = of_name(given, "k").view;
                if (world.rank() == 1) k = tensor(static_cast<const float*>(k.data()), {1, 1, 44, 32});
                mpi::detail::prepare(world, plan, table, given, {});
            });
    refuses("expected a tensor for the output lse",
            [&](mpi::context& world, const mpi::layout& plan, given_arguments& given) {
                std::erase_if(given, [](const auto& each) { return each.name == "lse"; });
                mpi::detail::prepare(world, plan, table, given, {});
            });
    refuses("one options::deterministic on all ranks, got true on 0 and false on 1",
            [&](mpi::context& world, const mpi::layout& plan, given_arguments& given) {
                mpi::detail::prepare(world, plan, table, given, {.deterministic = world.rank() == 0});
            });
    refuses(
        "expected one call on all ranks, got prepare of sharded::documents_shard on 0 and run of "
        "sharded::documents_shard on 1",
        [&](mpi::context& world, const mpi::layout& plan, given_arguments& given) {
            if (world.rank() == 0)
                mpi::detail::prepare(world, plan, table, given, {});
            else
                mpi::detail::run(world, plan, table, given, {});
        });
}

TEST_CASE("a prepared call with other inputs that decide who needs whose keys is a failure on all ranks") {
    const auto& table = detail::table_of<sharded::documents_shard>();
    const refused by = refusal_of([&](mpi::context& world, const mpi::layout& plan, given_arguments& given) {
        tensor& document = of_name(given, "document").view;
        const auto* const all = static_cast<const std::int32_t*>(document.data());
        std::vector<std::int32_t> own(all, all + 90);
        document = tensor(own.data(), {90});
        const mpi::prepared_call call(mpi::detail::prepare(world, plan, table, given, {.threads = 1}));
        call();
        if (world.rank() == 1) ++own[7];
        call();
        world.gather({}, "what comes next");  // rank 0 may have done its part before it heard
    });
    CHECK(by.sentence.starts_with("attune: on rank 1: expected document as planned, because it decides who needs"));
    CHECK(by.context_failed);
}

TEST_CASE("prepare takes arguments by name, as run does") {
    using namespace attune::dsl;
    const graph_ir of_whole = ir_of<sharded::sigmoid_attention>;
    const whole_call whole(of_whole, small, 1);
    on_ranks(2, {}, [&](std::unique_ptr<mpi::transport> carrier) {
        mpi::context world(std::move(carrier));
        const mpi::layout plan = mpi::plan<sharded::sigmoid_shard>(world, planning_of(small));
        arguments_of_rank mine(whole.call, of_whole, ir_of<sharded::sigmoid_shard>, whole.expected, plan.positions());
        const auto view = [&](std::string_view name) { return of_name(mine.all, name).view; };
        const auto call = mpi::prepare<sharded::sigmoid_shard>(world, plan, q = view("q"), k = view("k"), v = view("v"),
                                                               out = view("out"), output<"sum"> = view("sum"),
                                                               attune::options{.threads = 1});
        const auto copy = call;
        copy();
        expect(mine.largest_difference() < 2e-5);
    });
}
