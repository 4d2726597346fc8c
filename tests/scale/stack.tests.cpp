// Calls over ranks on threads whose stack is small, as tests/generators/stack.tests.cpp makes those of one process.
#include "../shards/variants.hpp"
#include "../support/small_stack.hpp"
#include "calls.hpp"
#include "gradient_calls.hpp"
#include "local_transport.hpp"
#include "on_ranks.hpp"

#include <algorithm>
#include <functional>
#include <mutex>

using namespace attune;

namespace {

constexpr support::shape square{.batches = 2, .heads = 4, .key_heads = 2, .queries = 150, .keys = 150},
    token{.batches = 2, .heads = 4, .key_heads = 2, .queries = 1, .keys = 900};

/// Fills in what a rank's call is made with; the most that a rank's thread took of its stack.
class taken {
public:
    /// All ranks do the same `work`, three times.
    void by(const std::function<void()>& work) {
        const std::size_t nothing = testing::touched(testing::roomy_stack, [] {});
        work();  // what is made once is there
        const std::size_t used = testing::touched(testing::roomy_stack, work) - nothing;
        testing::touched(testing::small_stack, work);
        const std::lock_guard lock(one_);
        most_ = std::max(most_, used);
    }
    std::size_t most() const { return most_; }

private:
    std::mutex one_;
    std::size_t most_ = 0;
};

template <const auto& Whole, const auto& Shard> void check(const support::shape& shape, bool decodes) {
    const graph_ir of_whole = dsl::ir_of<Whole>, shard = dsl::ir_of<Shard>;
    const whole_call whole(of_whole, shape, 7);
    const auto& table = detail::table_of<Shard>();
    for (const int ranks : {1, 3}) {
        taken plan_takes, call_takes, prepared_takes, refusal_takes;
        on_ranks(ranks, {.eager = 100}, [&](std::unique_ptr<mpi::transport> carrier) {
            mpi::context world(std::move(carrier));
            const mpi::planning what = decodes ? decode_of(shape) : planning_of(shape);
            const auto graphs = to_plan<Shard>(whole.call, {});
            plan_takes.by([&] { mpi::detail::plan(world, what, graphs, {.threads = 1}); });
            const mpi::layout plan = mpi::detail::plan(world, what, graphs, {.threads = 1});
            arguments_of_rank mine(whole.call, of_whole, shard, whole.expected, plan.positions(), decodes);
            call_takes.by([&] { mpi::detail::run(world, plan, table, mine.all, {.threads = 2}); });
            expect(mine.largest_difference() < 2e-5);
            const mpi::prepared_call call(mpi::detail::prepare(world, plan, table, mine.all, {.threads = 2}));
            prepared_takes.by([&] { call(); });
            expect(mine.largest_difference() < 2e-5);
            auto without_output = mine.all;
            without_output.pop_back();
            refusal_takes.by([&] {
                try {
                    mpi::detail::run(world, plan, table, without_output, {});
                } catch (const error&) {
                    return;
                }
                expect(false);
            });
        });
        CAPTURE(ranks, decodes);
        CHECK(plan_takes.most() <= testing::most_of_a_stack);
        CHECK(call_takes.most() <= testing::most_of_a_stack);
        CHECK(prepared_takes.most() <= testing::most_of_a_stack);
        CHECK(refusal_takes.most() <= testing::most_of_a_stack);
    }
}

}  // namespace

TEST_CASE("a call over ranks, its plan and its refusal run on a stack of 32 KB") {
    if (testing::frames_grow) SKIP("sanitizers make frames larger");
    check<sharded::windowed, sharded::windowed_shard>(square, false);
    check<sharded::windowed, sharded::windowed_shard>(token, true);
    check<sharded::sigmoid_attention, sharded::sigmoid_shard>(square, false);
}

TEST_CASE("a gradient over ranks runs on a stack of 32 KB") {
    if (testing::frames_grow) SKIP("sanitizers make frames larger");
    const graph_ir shard = dsl::ir_of<sharded::sigmoid_gradient_shard>;
    const whole_gradient_call whole(dsl::ir_of<sharded::sigmoid_attention>, dsl::ir_of<sharded::sigmoid_gradient>,
                                    square, 7);
    const auto& table = detail::table_of<sharded::sigmoid_gradient_shard>();
    for (const int ranks : {1, 3}) {
        taken call_takes;
        on_ranks(ranks, {.eager = 100}, [&](std::unique_ptr<mpi::transport> carrier) {
            mpi::context world(std::move(carrier));
            const mpi::layout plan = mpi::detail::plan(
                world, planning_of(square), to_plan<sharded::sigmoid_gradient_shard>(whole.drawn, {}), {.threads = 1});
            gradient_of_rank mine(whole, shard, plan.positions());
            call_takes.by([&] { mpi::detail::run(world, plan, table, mine.all, {.threads = 2}); });
        });
        CAPTURE(ranks);
        CHECK(call_takes.most() <= testing::most_of_a_stack);
    }
}
