#include "execution/threads.hpp"
#include "fake_variant.hpp"

#include <HalideRuntime.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <utility>

using Catch::Matchers::ContainsSubstring;

namespace {

/// A variant call big enough for several tasks.
struct wide_call : fake::call {
    wide_call() {
        batches = 4, heads = 8, key_heads = 4, queries = 16, keys = 24;
        fill();
    }
};

int threads_of_process() {
    int count = 0;
    FILE* const status = std::fopen("/proc/self/status", "r");
    char line[256];
    while (status && std::fgets(line, sizeof line, status)) std::sscanf(line, "Threads: %d", &count);
    if (status) std::fclose(status);
    return count;
}

}  // namespace

TEST_CASE("any number of threads gives the same bits") {
    wide_call one;
    REQUIRE(fake::refusal(one.arguments(), {.threads = 1}) == "");
    one.expect_right_results();
    for (const int threads : {2, 3, 8, 100}) {
        wide_call c;
        fake::reset();
        REQUIRE(fake::refusal(c.arguments(), {.threads = threads}) == "");
        CHECK(c.out == one.out);
        CHECK(c.lse == one.lse);
        CHECK(fake::seen.tasks == 32);
        CHECK(fake::seen.most_running <= threads);
    }
}

#if !defined(__SANITIZE_THREAD__)  // which has a thread of its own, and does not let a forked process start others
TEST_CASE("a call of one thread starts none") {
    // In a child, which begins with no thread but this one.
    const pid_t child = ::fork();
    if (child == 0) {
        wide_call c;
        const bool right = fake::refusal(c.arguments(), {.threads = 1}) == "" && threads_of_process() == 1;
        ::_exit(right ? 0 : 1);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
}

TEST_CASE("the child of a fork computes with threads of its own") {
    wide_call before;
    REQUIRE(fake::refusal(before.arguments(), {.threads = 3}) == "");
    const pid_t child = ::fork();
    if (child == 0) {
        wide_call c;
        const bool right = fake::refusal(c.arguments(), {.threads = 3}) == "" && c.out == before.out;
        ::_exit(right ? 0 : 1);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
}
#endif

TEST_CASE("threads come from options, then set_threads, then the environment, then the CPUs") {
    ::unsetenv("ATTUNE_THREADS");
    attune::set_threads(0);
    CHECK(attune::threads() >= 1);
    ::setenv("ATTUNE_THREADS", "3", 1);
    CHECK(attune::threads() == 3);
    attune::set_threads(5);
    CHECK(attune::threads() == 5);
    attune::set_threads(0);
    for (const char* wrong : {"0", "-1", "many", "2x", "99999999999"}) {
        ::setenv("ATTUNE_THREADS", wrong, 1);
        CHECK_THROWS_MATCHES(attune::threads(), attune::error,
                             Catch::Matchers::MessageMatches(
                                 ContainsSubstring("in ATTUNE_THREADS, got " + std::string(wrong) + "; try ")));
    }
    ::unsetenv("ATTUNE_THREADS");
    CHECK_THROWS_AS(attune::set_threads(-1), attune::error);
    fake::call c;
    CHECK_THAT(fake::refusal(c.arguments(), {.threads = -2}), ContainsSubstring("in attune::options, got -2"));
    CHECK(c.untouched());
}

TEST_CASE("calls may be made from several threads at once") {
    wide_call expected;
    REQUIRE(fake::refusal(expected.arguments(), {.threads = 1}) == "");
    std::atomic<int> wrong{0};
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 6; ++caller)
        callers.emplace_back([&, caller] {
            for (int round = 0; round < 20; ++round) {
                wide_call c;
                if (fake::refusal(c.arguments(), {.threads = 1 + (caller + round) % 4}) != "" || c.out != expected.out)
                    ++wrong;
            }
        });
    for (auto& caller : callers) caller.join();
    CHECK(wrong == 0);
}

TEST_CASE("an error in a task stops the call and carries its words") {
    for (const int threads : {1, 4}) {
        wide_call c;
        fake::reset();
        fake::next_mischief = fake::mischief::task_fails;
        CHECK_THAT(fake::refusal(c.arguments(), {.threads = threads}),
                   ContainsSubstring("attune: expected the kernel to finish, got task 2 was told to fail; try "));
        CHECK(fake::seen.tasks <= (threads == 1 ? 3 : 32));  // others may be under way before the one that fails
        fake::reset();
        CHECK(fake::refusal(c.arguments(), {.threads = threads}) == "");  // and the next one works
    }
}

TEST_CASE("a kernel without memory is an error, not the end") {
    wide_call c;
    fake::reset();
    fake::next_mischief = fake::mischief::out_of_memory;
    CHECK_THAT(fake::refusal(c.arguments()),
               ContainsSubstring("attune: expected enough memory for the scratch of the kernel's threads, got ") &&
                   ContainsSubstring("; try fewer threads"));
    fake::next_mischief = fake::mischief::unknown_code;
    CHECK_THAT(fake::refusal(c.arguments()), ContainsSubstring("got error code -77"));
    fake::reset();
}

TEST_CASE("the application's own pool does the tasks") {
    wide_call expected, c;
    REQUIRE(fake::refusal(expected.arguments(), {.threads = 1}) == "");
    int loops = 0;
    attune::set_parallel_for([&](int count, int threads, const std::function<void(int)>& task) {
        ++loops;
        CHECK(count == 32);
        CHECK(threads == 3);
        std::thread half([&] {
            for (int i = 0; i < count / 2; ++i) task(i);
        });
        for (int i = count / 2; i < count; ++i) task(i);
        half.join();
    });
    CHECK(fake::refusal(c.arguments(), {.threads = 3}) == "");
    CHECK(loops == 1);
    CHECK(c.out == expected.out);

    fake::next_mischief = fake::mischief::task_fails;
    CHECK_THAT(fake::refusal(c.arguments(), {.threads = 3}), ContainsSubstring("task 2 was told to fail"));
    fake::reset();
    attune::set_parallel_for([](int, int, const std::function<void(int)>& task) { task(0); });
    CHECK_THAT(fake::refusal(c.arguments(), {.threads = 3}), ContainsSubstring("ran 1 of 32 tasks"));
    attune::set_parallel_for(
        [](int, int, const std::function<void(int)>&) { throw std::runtime_error("no threads today"); });
    CHECK_THAT(fake::refusal(c.arguments(), {.threads = 3}), ContainsSubstring("threw: no threads today"));
    attune::set_parallel_for({});
    CHECK(fake::refusal(c.arguments(), {.threads = 3}) == "");
}

TEST_CASE("a pool of one call's goes before that of all") {
    wide_call expected;
    REQUIRE(fake::refusal(expected.arguments(), {.threads = 1}) == "");
    std::atomic<int> of_all{0}, of_one{0};
    const auto counting = [](std::atomic<int>& loops) {
        return [&loops](int count, int, const std::function<void(int)>& task) {
            ++loops;
            for (int i = 0; i < count; ++i) task(i);
        };
    };
    attune::set_parallel_for(counting(of_all));
    const attune::parallel_for own = counting(of_one), none;
    wide_call c, other;
    CHECK(fake::refusal(c.arguments(), {.threads = 3, .pool = &own}) == "");
    CHECK((of_one == 1 && of_all == 0 && c.out == expected.out));
    CHECK(fake::refusal(other.arguments(), {.threads = 3, .pool = &none}) == "");  // an empty one is none
    CHECK((of_one == 1 && of_all == 1 && other.out == expected.out));
    attune::set_parallel_for({});
    const attune::parallel_for throws = [](int, int, const std::function<void(int)>&) { throw 7; };
    CHECK_THAT(fake::refusal(other.arguments(), {.threads = 3, .pool = &throws}),
               ContainsSubstring("threw something that is not a std::exception"));
}

TEST_CASE("the calling thread does between its tasks what it is told to") {
    wide_call expected;
    REQUIRE(fake::refusal(expected.arguments(), {.threads = 1}) == "");
    const auto caller = std::this_thread::get_id();
    int times = 0, elsewhere = 0;
    const std::function<void()> counts = [&] { ++times, elsewhere += std::this_thread::get_id() != caller; }, none;
    const auto call = [&](const attune::options& how) {
        wide_call c;
        times = 0;
        CHECK(fake::refusal(c.arguments(), how) == "");
        CHECK(c.out == expected.out);
    };
    call({.threads = 1, .between_tasks = &counts});
    CHECK(times == 32);
    call({.threads = 5, .between_tasks = &counts});
    CHECK(times <= 32);
    const attune::parallel_for halves = [](int count, int, const std::function<void(int)>& task) {
        std::thread other([&] {
            for (int i = 1; i < count; i += 2) task(i);
        });
        for (int i = 0; i < count; i += 2) task(i);
        other.join();
    };
    call({.threads = 2, .pool = &halves, .between_tasks = &counts});
    CHECK(times == 16);
    CHECK(elsewhere == 0);
    call({.threads = 2, .between_tasks = &none});  // an empty one is none
    bool within = false;
    const std::function<void()> calls = [&] {
        if (!std::exchange(within, true)) call({.threads = 2});
    };
    call({.threads = 1, .between_tasks = &calls});
    CHECK(within);
}

TEST_CASE("what is thrown between tasks ends the call, which throws it") {
    struct lost {
        int at;
    };
    wide_call expected;
    REQUIRE(fake::refusal(expected.arguments(), {.threads = 1}) == "");
    const attune::parallel_for of_caller = [](int count, int, const std::function<void(int)>& task) {
        for (int i = 0; i < count; ++i) task(i);
    };
    for (const attune::options& how :
         {attune::options{.threads = 1}, {.threads = 4, .pool = &of_caller}, {.threads = 4}}) {
        wide_call c;
        int times = 0, thrown = 0;
        const std::function<void()> throws = [&] {
            if (++times == 3) throw lost{times};
        };
        attune::options with = how;
        with.between_tasks = &throws;
        fake::reset();
        try {
            attune::detail::call(fake::kernels(), c.arguments(), with);
        } catch (const lost& it) {
            thrown = it.at;
        }
        CHECK(thrown == (times < 3 ? 0 : 3));  // of attune's threads the others may have done all but two tasks
        if (how.threads == 1 || how.pool) CHECK((times == 3 && fake::seen.tasks == 3));
        CHECK(fake::refusal(c.arguments(), how) == "");
        CHECK(c.out == expected.out);
    }
}

TEST_CASE("signals are handled on the application's threads") {
    static std::atomic<int> elsewhere{0}, handled{0};
    static std::atomic<bool> stop{false};
    static thread_local bool application = false;
    application = true;
    struct sigaction handler{}, before{};
    handler.sa_handler = [](int) { (application ? handled : elsewhere).fetch_add(1); };
    REQUIRE(::sigaction(SIGUSR1, &handler, &before) == 0);
    std::thread sender([] {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, nullptr);
        while (!stop) ::kill(::getpid(), SIGUSR1), std::this_thread::sleep_for(std::chrono::microseconds(200));
    });
    wide_call expected, c;
    REQUIRE(fake::refusal(expected.arguments(), {.threads = 1}) == "");
    int wrong = 0;
    for (int i = 0; i < 200 || handled == 0; ++i)
        wrong += fake::refusal(c.arguments(), {.threads = 4}) != "" || c.out != expected.out;
    stop = true;
    sender.join();
    ::sigaction(SIGUSR1, &before, nullptr);
    CHECK(wrong == 0);
    CHECK(elsewhere == 0);
}

TEST_CASE("a thread leaves a CPU that another one uses, and may use the same ones as before") {
    cpu_set_t usable, now;
    REQUIRE(::sched_getaffinity(0, sizeof usable, &usable) == 0);
    const auto leave = [&](int cpu) {
        attune::detail::leave_cpu(cpu);
        REQUIRE(::sched_getaffinity(0, sizeof now, &now) == 0);
        CHECK(CPU_EQUAL(&now, &usable));
    };
    leave(-1), leave(CPU_SETSIZE);
    if (CPU_COUNT(&usable) < 2) return leave(attune::detail::current_cpu());  // nowhere to go
    int left = 0;
    for (int i = 0; i < 100 && left == 0; ++i) {  // it may be moved back at once, though not always
        const int cpu = attune::detail::current_cpu();
        leave(cpu);
        left += attune::detail::current_cpu() != cpu;
    }
    CHECK(left == 1);
}

TEST_CASE("calls from within tasks work") {
    wide_call expected;
    REQUIRE(fake::refusal(expected.arguments(), {.threads = 1}) == "");
    std::atomic<int> wrong{0};
    attune::set_parallel_for([&](int count, int, const std::function<void(int)>& task) {
        for (int i = 0; i < count; ++i) task(i);
        attune::set_parallel_for({});
        wide_call inner;
        if (fake::refusal(inner.arguments(), {.threads = 2}) != "" || inner.out != expected.out) ++wrong;
    });
    wide_call outer;
    CHECK(fake::refusal(outer.arguments(), {.threads = 2}) == "");
    CHECK(outer.out == expected.out);
    CHECK(wrong == 0);
}

TEST_CASE("kernels that are not attune's keep the handlers they had") {
    fake::call c;
    REQUIRE(fake::refusal(c.arguments()) == "");   // the hooks are in place
    const int before = halide_set_num_threads(1);  // of Halide's own pool; more would test Halide
    std::atomic<int> sum{0};
    const auto add = [](void*, int index, std::uint8_t* closure) {
        *reinterpret_cast<std::atomic<int>*>(closure) += index;
        return 0;
    };
    CHECK(halide_do_par_for(nullptr, add, 1, 10, reinterpret_cast<std::uint8_t*>(&sum)) == 0);
    CHECK(sum == 55);
    halide_set_num_threads(before);
    char foreign = 'x';  // a context of another library: shorter than ours, and not to be read
    void* const memory = halide_malloc(&foreign, 1000);
    CHECK(memory != nullptr);
    halide_free(&foreign, memory);
}

TEST_CASE("scratch is aligned and comes back without the allocator") {
    static void* blocks[2];
    static int round;
    round = 0;
    attune::kernel k = fake::kernels().kernels[1];
    k.call = [](void** arguments) {
        void* const context = *static_cast<void**>(arguments[0]);
        blocks[round++] = halide_malloc(context, 3'000'000);  // of a size that nothing else leaves behind
        halide_free(context, blocks[round - 1]);
        return 0;
    };
    attune::kernel_table table = fake::kernels();
    table.kernels = {&k, 1};
    fake::call c;
    attune::detail::call(table, c.arguments(), {});
    attune::detail::call(table, c.arguments(), {});
    CHECK(blocks[0] == blocks[1]);
    CHECK(reinterpret_cast<std::uintptr_t>(blocks[0]) % 128 == 0);
}
