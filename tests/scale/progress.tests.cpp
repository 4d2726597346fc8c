// While a kernel runs, messages and notices of another rank's failure get on.
#include "../shards/variants.hpp"
#include "calls.hpp"
#include "local_transport.hpp"
#include "ranks.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

using namespace attune;

namespace {

struct events {
    std::atomic<int> sent{0}, taken{0};  ///< messages with keys: begun, and over for their sender
    std::atomic<int> told{0};            ///< notices of failures
};

/// A transport that says what happens.
class watched final : public mpi::transport {
public:
    watched(std::unique_ptr<mpi::transport> of, events& seen) : of_(std::move(of)), seen_(seen) {}

    int rank() const override { return of_->rank(); }
    int size() const override { return of_->size(); }
    mpi::request send(mpi::outgoing what, int to, int tag) override {
        const mpi::request made = of_->send(std::move(what), to, tag);
        if (tag == 0)
            ++seen_.told;
        else
            keys_.insert(made), ++seen_.sent;
        return made;
    }
    mpi::request receive(mpi::incoming what, int from, int tag) override {
        return of_->receive(std::move(what), from, tag);
    }
    mpi::request agree(mpi::outgoing mine, mpi::incoming all) override {
        return of_->agree(std::move(mine), std::move(all));
    }
    bool test(mpi::request asked) override {
        const bool over = of_->test(asked);
        if (over && keys_.erase(asked) > 0) ++seen_.taken;
        return over;
    }
    void cancel(mpi::request asked) override { of_->cancel(asked); }
    double now() const override { return of_->now(); }
    void idle(int times, double until) override { of_->idle(times, until); }

private:
    std::unique_ptr<mpi::transport> of_;
    events& seen_;
    std::set<mpi::request> keys_;
};

using std::chrono::steady_clock, std::chrono::milliseconds, std::chrono::seconds;

template <class Truth> bool soon(Truth&& truth) {
    for (const auto until = steady_clock::now() + seconds(10); !truth();) {
        if (steady_clock::now() > until) return false;
        std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
}

/// Two ranks of which the second needs keys of the first. `pool`: runs the tasks of their kernels, on the ranks' own
/// threads.
struct two_ranks {
    using task = std::function<void(int)>;
    using loop = std::function<void(int rank, std::int64_t messages, int count, const task& each)>;

    void run(const mpi::local_script& script, const loop& pool, const std::function<void(int rank)>& between) {
        const support::shape shape{.heads = 4, .key_heads = 2, .queries = 400, .keys = 400};
        const graph_ir of_whole = dsl::ir_of<sharded::windowed>, shard = dsl::ir_of<sharded::windowed_shard>;
        const whole_call whole(of_whole, shape, 3);
        mpi::run_local(2, script, [&](std::unique_ptr<mpi::transport> carrier) {
            mpi::context world(std::make_unique<watched>(std::move(carrier), seen));
            const int rank = world.rank();
            mpi::planning what = planning_of(shape);
            what.layout = mpi::arrangement::contiguous;
            const mpi::layout plan =
                mpi::detail::plan(world, what, to_plan<sharded::windowed_shard>(whole.call, {}), {.threads = 1});
            const mpi::exchange_plan& planned = plan.graphs()[0];
            const std::int64_t messages = rank ? planned.messages_received() : planned.messages_sent();
            expect(messages > 0 && (rank ? planned.messages_sent() : planned.messages_received()) == 0);
            const parallel_for runs = [&](int count, int, const task& each) {
                expect(count > 3);
                pool(rank, messages, count, each);
            };
            const std::function<void()> after_each = [&] { between(rank); };
            arguments_of_rank mine(whole.call, of_whole, shard, whole.expected, plan.positions());
            try {
                mpi::detail::run(world, plan, detail::table_of<sharded::windowed_shard>(), mine.all,
                                 {.threads = 2, .pool = &runs, .between_tasks = &after_each}, true);
                expect(mine.largest_difference() < 2e-5);
                world.gather({}, "what comes next");  // a rank that has done its part hears of failures here
            } catch (const mpi::context_failure& failure) {
                thrown[rank] = failure.what();
            }
        });
    }

    events seen;
    std::string thrown[2];
};

}  // namespace

TEST_CASE("keys are received while a kernel runs") {
    const mpi::local_script script{.delay = [](auto...) { return 0.005; }, .eager = 0, .clock_jumps = false};
    two_ranks both;
    int loops = 0;
    std::atomic<int> asked{0};
    bool during = false;
    both.run(
        script,
        [&](int rank, std::int64_t messages, int count, const auto& task) {
            const bool watches = rank == 1 && loops++ == 0;
            if (watches) {
                expect(soon([&] { return both.seen.sent == messages; }));
                std::this_thread::sleep_for(milliseconds(10));  // until they are there
            }
            for (int i = 0; i < count; ++i) {
                task(i);
                if (watches && i == 0) during = soon([&] { return both.seen.taken == messages; });
            }
        },
        [&](int rank) { asked += rank; });
    CHECK((both.thrown[0].empty() && both.thrown[1].empty()));
    CHECK(during);
    CHECK(loops > 1);
    CHECK(asked > 6);  // the caller's own function is called, too
}

TEST_CASE("a failure is heard while a kernel runs, which then ends") {
    two_ranks both;
    std::atomic<bool> began{false};
    std::atomic<int> tasks{0};
    bool during = false;
    both.run(
        {},
        [&](int rank, std::int64_t, int count, const auto& task) {
            if (rank == 0) {
                expect(soon([&] { return began.load(); }));
                throw std::runtime_error("no more threads");
            }
            for (int i = 0; i < count; ++i) {
                if (i == 1) expect(soon([&] { return both.seen.told == 1; }));
                task(i);
                began = true;
                if (i == 1) during = both.seen.told == 2;
            }
        },
        [&](int rank) { tasks += rank; });
    INFO(both.thrown[0]);
    CHECK(both.thrown[0].find("on rank 0: ") != std::string::npos);
    CHECK(both.thrown[0].find("no more threads") != std::string::npos);
    CHECK(both.thrown[1] == both.thrown[0]);
    CHECK(during);
    CHECK(tasks == 2);
}

TEST_CASE("what the caller's own function throws between tasks all ranks throw") {
    two_ranks both;
    both.run(
        {},
        [&](int, std::int64_t, int count, const auto& task) {
            for (int i = 0; i < count; ++i) task(i);
        },
        [&](int rank) {
            if (rank == 1) throw std::runtime_error("attune: expected time, got none; try later");
        });
    CHECK(both.thrown[0] == "attune: on rank 1: expected time, got none; try later");
    CHECK(both.thrown[1] == both.thrown[0]);
}
