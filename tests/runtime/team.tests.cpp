// Calls on threads that an application already runs side by side.
#include "packed_call.hpp"

#include <HalideRuntime.h>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>

using Catch::Matchers::ContainsSubstring;

namespace {

/// Runs `region(worker)` on so many threads of its own.
template <class Region> void on_threads(int workers, Region region) {
    std::vector<std::thread> all;
    for (int i = 1; i < workers; ++i) all.emplace_back([&region, i] { region(i); });
    region(0);
    for (auto& each : all) each.join();
}

struct team_of_threads {
    explicit team_of_threads(int workers) : meet(workers), team(workers, [this] { meet.arrive_and_wait(); }) {}
    std::barrier<> meet;
    attune::team team;
};

/// A kernel with a task for each of `together` threads, each of which waits for all others, but not for ever.
std::atomic<int> arrived{0}, together{0}, most_together{0};
int meeting(void** arguments) {
    arrived = most_together = 0;
    const auto task = [](void*, int, std::uint8_t*) {
        ++arrived;
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (arrived < together && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        most_together = std::max(most_together.load(), arrived.load());
        return 0;
    };
    return halide_do_par_for(*static_cast<void**>(arguments[0]), task, 0, together, nullptr);
}

}  // namespace

TEST_CASE("the workers of a team compute what a call of one thread does, to the last bit") {
    const int workers = GENERATE(1, 2, 3, 5);
    fake::call c, expected;
    attune::detail::call(fake::kernels(), expected.arguments(), {.threads = 1});
    const auto call = attune::detail::prepare(fake::kernels(), c.arguments(), {});
    team_of_threads all(workers);
    for (int region = 0; region < 50; ++region) {
        std::ranges::fill(c.out, -1.0f), std::ranges::fill(c.lse, -1.0f);
        on_threads(workers, [&](int worker) {
            for (int round = 0; round < 3; ++round) {  // regions of a team follow each other with nothing between
                all.team.run(worker, [&] {
                    attune::detail::call(*call);
                    attune::detail::call(fake::kernels(), c.arguments(), {});
                });
                if (round == 1) all.team.run(worker, [] {});
            }
        });
        REQUIRE(c.out == expected.out);
        REQUIRE(c.lse == expected.lse);
    }
}

TEST_CASE("all workers of a team work, and no more of them than the call may have") {
    constexpr int workers = 3;
    fake::call c;
    std::vector<attune::kernel> kernels(fake::kernels().kernels.begin(), fake::kernels().kernels.end());
    for (attune::kernel& each : kernels) each.call = meeting;
    attune::kernel_table table = fake::kernels();
    table.kernels = kernels;
    const auto of_all = attune::detail::prepare(table, c.arguments(), {});
    team_of_threads all(workers);
    together = workers;
    on_threads(workers, [&](int worker) { all.team.run(worker, [&] { attune::detail::call(*of_all); }); });
    CHECK(most_together == workers);
    fake::reset();
    on_threads(workers, [&](int worker) {
        all.team.run(worker, [&] { attune::detail::call(fake::kernels(), c.arguments(), {.threads = 2}); });
    });
    CHECK(fake::seen.most_running <= 2);
    fake::reset();
    attune::detail::call(fake::kernels(), c.arguments(), {.threads = 1});  // outside, there is no team
    CHECK(fake::seen.most_running == 1);
    c.expect_right_results();
}

TEST_CASE("what a call in a team throws is thrown in worker 0, and all workers leave") {
    constexpr int workers = 3;
    fake::call c;
    team_of_threads all(workers);
    std::atomic<int> thrown{0}, left{0};
    const auto region = [&](const attune::options& how, fake::mischief mischief) {
        fake::reset(), thrown = left = 0;
        fake::next_mischief = mischief;
        on_threads(workers, [&](int worker) {
            try {
                all.team.run(worker, [&] { attune::detail::call(fake::kernels(), c.arguments(), how); });
            } catch (const attune::error&) {
                thrown += worker == 0 ? 1 : 100;
            }
            ++left;
        });
        fake::reset();
        CHECK(left == workers);
        return thrown.load();
    };
    CHECK(region({.threads = -1}, fake::mischief::none) == 1);
    CHECK(region({}, fake::mischief::task_fails) == 1);
    CHECK(region({}, fake::mischief::none) == 0);
    c.expect_right_results();
}

TEST_CASE("a packed call runs its kernels at once on a team") {
    const int workers = GENERATE(1, 2, 4);
    packed_queries::packed call({0, 1, 3, 4, 6, 7, 9, 10});
    const auto prepared = attune::detail::prepare(fake::kernels(), call.all, {});
    team_of_threads all(workers);
    for (int region = 0; region < 20; ++region)
        on_threads(workers, [&](int worker) { all.team.run(worker, [&] { attune::detail::call(*prepared); }); });
    call.expect_right_results();
}

TEST_CASE("a region of worker 0 within one of its team is a part of that one") {
    constexpr int workers = 3;
    fake::call c;
    const auto call = attune::detail::prepare(fake::kernels(), c.arguments(), {});
    team_of_threads all(workers);
    int calls = 0;
    on_threads(workers, [&](int worker) {
        all.team.run(worker, [&] {
            all.team.run(0, [&] { attune::detail::call(*call), ++calls; });
            attune::detail::call(*call), ++calls;
        });
    });
    CHECK(calls == 2);
    c.expect_right_results();
}

TEST_CASE("a team without workers or barrier, and a worker that it has not, are refused") {
    CHECK_THROWS_WITH(attune::team(0, [] {}),
                      ContainsSubstring("expected from 1 to 4096 workers in attune::team, got 0"));
    CHECK_THROWS_WITH(attune::team(2, {}), ContainsSubstring("expected a barrier"));
    attune::team alone(1, {});
    for (const int worker : {-1, 1})
        CHECK_THROWS_WITH(alone.run(worker, [] {}), ContainsSubstring("expected a worker from 0 to 0"));
    int times = 0;
    alone.run(0, [&] { ++times; });
    CHECK(times == 1);
}

#ifdef _OPENMP
TEST_CASE("the threads of an OpenMP region are a team") {
    fake::call c;
    const auto call = attune::detail::prepare(fake::kernels(), c.arguments(), {});
    constexpr int workers = 3;
    attune::team team(workers, [] {
#pragma omp barrier
    });
    sigset_t all, before;  // OpenMP's threads stay, and the handlers of other tests are not to run on them
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int region = 0; region < 20; ++region) {
        std::atomic<int> next{0};
#pragma omp parallel num_threads(workers)
        team.run(next++, [&] { attune::detail::call(*call); });
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    c.expect_right_results();
}
#endif
