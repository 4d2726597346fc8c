// Packed queries: cu_seqlens_q says where each sequence's begin, and a call computes what a call for each would.
#include "packed_call.hpp"

#include <HalideRuntime.h>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <chrono>
#include <thread>

using Catch::Matchers::ContainsSubstring;
using namespace packed_queries;

TEST_CASE("a call with cu_seqlens_q computes what a call for each sequence does") {
    const starts of = GENERATE(starts{0, 1, 2, 2, 7, 8}, starts{0, 3}, starts{0, 0, 0, 4, 4}, starts{0, 2, 4, 6},
                               starts{0, 1, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18});
    packed call(of);
    const int threads = GENERATE(1, 2, 5);
    CAPTURE(of.size(), threads);
    attune::detail::call(fake::kernels(), call.all, {.threads = threads});
    call.expect_right_results();
}

TEST_CASE("neighbours with as many queries are one call of a kernel, and empty sequences none") {
    packed call({0, 1, 2, 2, 2, 7, 8, 9});
    fake::reset();
    attune::detail::call(fake::kernels(), call.all, {.threads = 1});
    CHECK(fake::seen.calls == 3);
    CHECK(fake::seen.tasks == (2 + 1 + 2) * call.c.heads);
}

TEST_CASE("no queries at all, and no sequences, run no kernel") {
    const starts of = GENERATE(starts{0}, starts{0, 0}, starts{0, 0, 0, 0});
    packed call(of);
    fake::reset();
    CHECK(fake::refusal(call.all) == "");
    CHECK(fake::seen.calls == 0);
    if (of.size() == 1)
        CHECK_THAT(attune::detail::explain(fake::kernels(), call.all, {}).text(),
                   ContainsSubstring("packed    no sequences\n"));
}

TEST_CASE("what is summed over the queries of a sequence that has none is 0") {
    using namespace by_hand;
    graph g;
    const auto weights = g.softmax(g.scores(g.q(), g.k()));
    g.output("received", g.add(attune::operation::sum_over_queries, attune::kind::column, {weights}));
    std::vector<float> memory(256), received(3 * 2 * 5, 7);
    starts where{0, 1, 1, 2};
    CHECK(by_hand::call(
              g, {view("q", {memory.data(), {1, 2, 2, 8}}), view("k", {memory.data(), {3, 2, 5, 8}}),
                  view("cu_seqlens_q", {where.data(), {4}}), view("received", {received.data(), {3, 2, 5}})}) == "");
    for (std::size_t i = 0; i < received.size(); ++i) CHECK(received[i] == (i / 10 == 1 ? 0 : 7));
    CHECK(seen.calls == 2);
}

TEST_CASE("typed calls pass cu_seqlens_q by its name") {
    packed call;
    using namespace fake;
    attune::run<variant>(q = call.argument("q").view, k = call.c.K(), v = call.c.V(), fake::slopes = call.c.S(),
                         bias = call.argument("bias").view, is_global = call.c.G(), fake::table = call.c.T(), w = 1,
                         gain = 0.5, out = call.argument("out").view, lse = call.argument("lse").view,
                         cu_seqlens_q = call.argument("cu_seqlens_q").view,
                         kv_lengths = call.argument("kv_lengths").view);
    call.expect_right_results();
}

TEST_CASE("token-major storage, read-only queries and strides of cu_seqlens_q make no difference") {
    packed call;
    const auto [out, lse] = call.expected();
    fake::call& c = call.c;
    std::vector<float> q(c.q.size()), got(c.out.size());
    for (std::int64_t h = 0; h < c.heads; ++h)
        for (std::int64_t i = 0; i < c.queries; ++i)
            for (std::int64_t d = 0; d < c.depth; ++d)
                q[static_cast<std::size_t>((i * c.heads + h) * c.depth + d)] =
                    c.q[static_cast<std::size_t>((h * c.queries + i) * c.depth + d)];
    starts twice;
    for (const std::int32_t each : call.where) twice.insert(twice.end(), {each, -1});
    call.set("q", tensor(static_cast<const float*>(q.data()), {1, c.queries, c.heads, c.depth}).swapped(1, 2));
    call.set("out", tensor(got.data(), {1, c.queries, c.heads, c.value_depth}).swapped(1, 2));
    call.set("cu_seqlens_q", tensor(twice.data(), {static_cast<std::int64_t>(call.where.size())}, {2}));
    attune::detail::call(fake::kernels(), call.all, {});
    for (std::int64_t h = 0; h < c.heads; ++h)
        for (std::int64_t i = 0; i < c.queries; ++i)
            for (std::int64_t d = 0; d < c.value_depth; ++d)
                CHECK(got[static_cast<std::size_t>((i * c.heads + h) * c.value_depth + d)] ==
                      out[static_cast<std::size_t>((h * c.queries + i) * c.value_depth + d)]);
}

TEST_CASE("what broadcasts along queries or the batch does so for each sequence") {
    packed call;
    const fake::call& c = call.c;
    std::vector<float> same(c.bias.size());  // a bias for each sequence and key
    for (std::int64_t h = 0; h < c.heads; ++h)
        for (std::int64_t b = 0; b < c.batches; ++b)
            for (std::int64_t i = call.where[static_cast<std::size_t>(b)];
                 i < call.where[static_cast<std::size_t>(b) + 1]; ++i)
                for (std::int64_t j = 0; j < c.keys; ++j)
                    same[static_cast<std::size_t>((h * c.queries + i) * c.keys + j)] =
                        c.bias[static_cast<std::size_t>(b * c.keys + j)];
    std::vector<float> const bias = c.bias;
    call.c.bias = same;
    call.set("bias", {call.c.bias.data(), {1, c.heads, c.queries, c.keys}});
    const auto [out, lse] = call.expected();
    call.set("bias", {bias.data(), {c.batches, 1, 1, c.keys}});
    attune::detail::call(fake::kernels(), call.all, {});
    CHECK(std::equal(call.c.lse.begin(), call.c.lse.begin() + c.heads * c.queries, lse.begin()));
}

TEST_CASE("explain says which kernel each run of sequences gets") {
    packed call;
    const attune::explanation what = attune::detail::explain(fake::kernels(), call.all, {});
    REQUIRE(what.packed.size() == 4);
    CHECK(what.packed[0].first == 0);
    CHECK(what.packed[0].sequences == 2);
    CHECK(what.packed[0].queries == 1);
    CHECK(what.packed[2].queries == 5);
    CHECK(what.query_length == 5);
    CHECK(what.inputs[0].shape == std::vector<std::int64_t>{1, 4, 8, 8});
    CHECK(what.inputs[1].shape == std::vector<std::int64_t>{5, 2, 7, 8});
    CHECK(what.outputs[0].shape == std::vector<std::int64_t>{1, 4, 8, 4});
    CHECK(what.outputs[1].shape == std::vector<std::int64_t>{1, 4, 8});
    CHECK_THAT(what.text(), ContainsSubstring("packed    sequences 0 to 1, queries each 1: attune_fake_f32_d8x4\n"));
    CHECK_THAT(what.json(), ContainsSubstring(R"("packed": [{"first": 0, "sequences": 2, "queries": 1, "kernel": )"));
    CHECK(explain(*attune::detail::prepare(fake::kernels(), call.all, {})).text() == what.text());
}

TEST_CASE("a prepared call heeds what cu_seqlens_q says when it is called") {
    packed call;
    const auto prepared = attune::detail::prepare(fake::kernels(), call.all, {.threads = 2});
    CHECK(call.c.untouched());
    attune::detail::call(*prepared);
    call.expect_right_results();
    call.where = {0, 4, 4, 5, 6, 8};
    attune::detail::call(*prepared);
    call.expect_right_results();
    call.where[1] = 9;
    CHECK_THROWS_WITH(attune::detail::call(*prepared), ContainsSubstring("got 4 at 2"));
    call.where = {0, 1, 2, 2, 7, 8};
    call.c.lengths[0] = 99;
    CHECK_THROWS_WITH(attune::detail::call(*prepared), ContainsSubstring("got 99 for batch element 0"));
}

namespace {

/// How many tasks run at once, of however many loops.
struct gauge {
    std::atomic<int> running{0}, most{0};
    void enter() {
        const int now = ++running;
        for (int before = most; before < now && !most.compare_exchange_weak(before, now);) {
        }
    }
};

/// A kernel that is one loop.
struct loop {
    int count;
    gauge& all;
    gauge of{};
    std::atomic<int> done{0};
    bool all_at_once = false;  ///< each task waits for all others, but not for ever
    gauge* after = nullptr;    ///< each waits until this one has begun
    int rounds = 1;            ///< so many loops, one after another

    template <class Ready> static void wait_for(Ready ready) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!ready() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    }
    static int task(void*, int, std::uint8_t* closure) {
        auto& self = *reinterpret_cast<loop*>(closure);
        self.of.enter(), self.all.enter();
        if (self.all_at_once) wait_for([&] { return self.of.most >= self.count; });
        if (self.after) wait_for([&] { return self.after->most > 0; });
        if (!self.all_at_once) std::this_thread::sleep_for(std::chrono::microseconds(50));
        --self.all.running, --self.of.running, ++self.done;
        return 0;
    }
    static int kernel(void** arguments) {
        auto& self = *static_cast<loop*>(arguments[1]);
        int code = 0;
        for (int round = 0; round < self.rounds && code == 0; ++round)
            code = halide_do_par_for(*static_cast<void**>(arguments[0]), task, 0, self.count,
                                     reinterpret_cast<std::uint8_t*>(&self));
        return code;
    }
};

}  // namespace

TEST_CASE("threads that find no kernel left to begin help those that still run, whichever thread began them") {
    for (int round = 0; round < 20; ++round) {
        gauge all;
        loop wide{.count = 3, .all = all, .all_at_once = true}, brief{.count = 1, .all = all, .after = &wide.of};
        void *of_brief[] = {nullptr, &brief}, *of_wide[] = {nullptr, &wide};
        std::vector<attune::detail::kernel_launch> launches{{loop::kernel, of_brief}, {loop::kernel, of_wide}};
        if (round % 2 == 0) std::swap(launches[0], launches[1]);  // the caller begins the last
        attune::detail::invoke_together(launches, 3, {});
        REQUIRE(wide.of.most == 3);
        CHECK(wide.done + brief.done == 4);
    }
}

TEST_CASE("kernels that run together use no more threads than the call may") {
    const int threads = GENERATE(1, 2, 3);
    packed call({0, 1, 3, 4, 6, 7, 9, 10});
    attune::detail::call(fake::kernels(), call.all, {.threads = 8});  // there are more threads than that
    fake::reset();
    attune::detail::call(fake::kernels(), call.all, {.threads = threads});
    CHECK(fake::seen.calls == 7);
    CHECK(fake::seen.most_running <= threads);
    gauge all;
    loop first{.count = 4, .all = all, .rounds = 4}, second{.count = 4, .all = all, .rounds = 4};
    void *of_first[] = {nullptr, &first}, *of_second[] = {nullptr, &second};
    const attune::detail::kernel_launch launches[] = {{loop::kernel, of_first}, {loop::kernel, of_second}};
    for (int round = 0; round < 30; ++round) attune::detail::invoke_together(launches, threads, {});
    CHECK(first.done + second.done == 960);
    CHECK(all.most <= threads);
}

TEST_CASE("a failure of one of the kernels that run together is the call's") {
    packed call({0, 1, 3, 4, 6});
    for (const auto mischief : {fake::mischief::task_fails, fake::mischief::unknown_code}) {
        const int threads = GENERATE(1, 3);
        fake::reset();
        fake::next_mischief = mischief;
        CHECK_THROWS_AS(attune::detail::call(fake::kernels(), call.all, {.threads = threads}), attune::kernel_failure);
        fake::reset();
        attune::detail::call(fake::kernels(), call.all, {.threads = threads});
        call.expect_right_results();
    }
}

TEST_CASE("what is thrown between the tasks of kernels that run together ends the call") {
    packed call({0, 1, 3, 4, 6});
    int times = 0;
    const std::function<void()> throws = [&] {
        if (++times == 2) throw 7;
    };
    CHECK_THROWS_AS(attune::detail::call(fake::kernels(), call.all, {.threads = 1, .between_tasks = &throws}), int);
    CHECK(times == 2);
    attune::detail::call(fake::kernels(), call.all, {.threads = 1, .between_tasks = &throws});
    CHECK(times > 2);
    call.expect_right_results();
}

TEST_CASE("each task of the application's own pool is a thread for all kernels of a packed call") {
    packed call({0, 1, 3, 4, 6});
    int loops = 0;
    const attune::parallel_for one_by_one = [&](int count, int, const std::function<void(int)>& task) {
        ++loops;
        for (int i = 0; i < count; ++i) task(i);
    };
    attune::detail::call(fake::kernels(), call.all, {.threads = 2, .pool = &one_by_one});
    CHECK(loops == 1);
    call.expect_right_results();

    const attune::parallel_for at_once = [](int count, int, const std::function<void(int)>& task) {
        std::vector<std::thread> all;
        for (int i = 0; i < count; ++i) all.emplace_back(task, i);
        for (auto& each : all) each.join();
    };
    for (int round = 0; round < 20; ++round) {
        gauge all;
        loop wide{.count = 3, .all = all, .all_at_once = true}, brief{.count = 1, .all = all, .after = &wide.of};
        void *of_brief[] = {nullptr, &brief}, *of_wide[] = {nullptr, &wide};
        std::vector<attune::detail::kernel_launch> launches{{loop::kernel, of_brief}, {loop::kernel, of_wide}};
        if (round % 2 == 0) std::swap(launches[0], launches[1]);
        attune::detail::invoke_together(launches, 3, {.pool = &at_once});
        REQUIRE(wide.of.most == 3);
        CHECK(wide.done + brief.done == 4);
    }
}

TEST_CASE("an application's own pool that fails ends a packed call with its words") {
    packed call({0, 1, 3, 4, 6});
    const attune::parallel_for idle = [](int, int, const std::function<void(int)>&) {},
                               throws = [](int, int, const std::function<void(int)>&) {
                                   throw std::runtime_error("no threads today");
                               };
    CHECK_THROWS_WITH(attune::detail::call(fake::kernels(), call.all, {.threads = 2, .pool = &idle}),
                      ContainsSubstring("ran no task"));
    CHECK_THROWS_WITH(attune::detail::call(fake::kernels(), call.all, {.threads = 2, .pool = &throws}),
                      ContainsSubstring("no threads today"));
    fake::reset();
    fake::next_mischief = fake::mischief::task_fails;
    const attune::parallel_for works = [](int count, int, const std::function<void(int)>& task) {
        for (int i = 0; i < count; ++i) task(i);
    };
    CHECK_THROWS_WITH(attune::detail::call(fake::kernels(), call.all, {.threads = 2, .pool = &works}),
                      ContainsSubstring("task 2 was told to fail"));
    fake::reset();
}
