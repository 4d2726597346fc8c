// Conditions of a service: no memory, many callers, forks.
#include "allocations.hpp"
#include "by_hand.hpp"
#include "fake_variant.hpp"
#include "index_call.hpp"
#include "packed_call.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string>
#include <thread>
#include <vector>

using Catch::Matchers::ContainsSubstring;

namespace {

struct wide_call : fake::call {
    wide_call() {
        batches = 4, heads = 8, key_heads = 4, queries = 16, keys = 24;
        fill();
    }
};

/// A variant whose kernel keeps two rows for itself.
struct keeps_rows {
    by_hand::graph g;
    std::vector<attune::kernel> kernels;
    std::vector<float> q = std::vector<float>(2 * 4 * 5 * 8), k = std::vector<float>(2 * 2 * 7 * 8),
                       lse = std::vector<float>(2 * 4 * 5);
    by_hand::arguments all{by_hand::view("k", attune::tensor(k.data(), {2, 2, 7, 8})),
                           by_hand::view("q", attune::tensor(q.data(), {2, 4, 5, 8})),
                           by_hand::view("lse", attune::tensor(lse.data(), {2, 4, 5}))};
    keeps_rows() {
        using namespace by_hand;
        g.saved_rows = 2;
        const node_id length = g.add(operation::extent, kind::integer, {g.k()}, 2);
        const node_id keys =
            g.add(operation::keys, kind::tensor, {g.add(operation::load, kind::real, {node_id{}}), length});
        g.output("lse", g.add(operation::log_sum_exp, kind::row, {g.scores(g.q(), keys)}));
        kernels = kernels_of(g);
    }
    attune::kernel_table table() const {
        return {
            .version = attune::kernel_table_version, .variant = "by::hand", .graph = g.graph_ir(), .kernels = kernels};
    }
};

/// The sentences of a call, as each allocation in turn is refused, until one call is made without a refusal.
std::vector<std::string> refusals_without_memory(const attune::kernel_table& table, const by_hand::arguments& all) {
    std::vector<std::string> said;
    for (bool done = false; !done && said.size() < 100;) {
        const char* what = "it can do without";
        std::string text;
        std::thread([&] {  // which has kept no scratch from earlier calls
            const allocations::counted count;
            allocations::until_refusal = static_cast<long>(said.size());
            try {
                attune::detail::call(table, all, {.threads = 1});
                done = allocations::until_refusal >= 0;
            } catch (const attune::error& e) {
                allocations::until_refusal = -1;
                text = e.what(), what = text.c_str();
            } catch (const std::bad_alloc&) {
                what = "no memory";
            }
        })
            .join();
        if (!done) said.emplace_back(what);
    }
    return said;
}

}  // namespace

TEST_CASE("the second call of a kind takes nothing from the system") {
    if (!allocations::are_counted) SKIP("the sanitizer has an allocator of its own");
    wide_call c;
    const auto all = c.arguments();
    const auto calls = [&](int count, int threads) {
        for (int i = 0; i < count; ++i) attune::detail::call(fake::kernels(), all, {.threads = threads});
    };
    calls(1, 1);
    {
        const allocations::counted count;
        calls(20, 1);
        CHECK(allocations::taken == 0);
    }
    const pid_t child = ::fork();  // whose pool has two threads and no more
    if (child == 0) {
        calls(50, 3);
        const allocations::counted count;
        calls(20, 3);
        ::_exit(allocations::taken <= 2 ? 0 : 1);  // one each, if it has not had a task before
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
}

TEST_CASE("a call with rows that the kernel keeps takes nothing from the system either") {
    if (!allocations::are_counted) SKIP("the sanitizer has an allocator of its own");
    keeps_rows call;
    call.kernels[0].call = [](void**) { return 0; };
    attune::detail::call(call.table(), call.all, {});
    const allocations::counted count;
    attune::detail::call(call.table(), call.all, {});
    CHECK(allocations::taken == 0);
}

TEST_CASE("a call with cu_seqlens_q takes nothing from the system either, with these lengths or with others") {
    if (!allocations::are_counted) SKIP("the sanitizer has an allocator of its own");
    const packed_queries::packed one({0, 1, 2, 2, 7, 8}), other({0, 2, 3, 3, 5, 8});
    const auto both = [&] {
        for (const auto* each : {&one, &other}) attune::detail::call(fake::kernels(), each->all, {.threads = 1});
    };
    both();
    const allocations::counted count;
    for (int i = 0; i < 20; ++i) both();
    CHECK(allocations::taken == 0);
    CHECK(allocations::given_back == 0);
}

TEST_CASE("wherever memory ends, a call is an error that leaves nothing behind") {
    if (!allocations::are_counted) SKIP("the sanitizer has an allocator of its own");
    wide_call c;
    const auto all = c.arguments();
    attune::detail::call(fake::kernels(), all, {.threads = 1});  // what is made once is there
    int refusals = 0, wrong = 0;
    bool done = false;
    const auto calls = [&](long which) {
        allocations::until_refusal = which;
        try {
            attune::detail::call(fake::kernels(), all, {.threads = 1});
            done = allocations::until_refusal >= 0;  // none was refused: or one that a call can do without
        } catch (const attune::error& e) {
            allocations::until_refusal = -1;
            ++refusals;
            if (std::string_view(e.what()).find("attune: expected ") != 0) ++wrong;
        } catch (const std::bad_alloc&) {
            ++refusals;
        }
        allocations::until_refusal = -1;
        try {
            attune::detail::call(fake::kernels(), all, {.threads = 1});  // and the next one works
        } catch (...) {
            ++wrong;
        }
    };
    std::thread([&] { calls(0); }).join();
    refusals = 0, done = false;
    for (long which = 0; !done && which < 100; ++which) {
        long lost;
        {
            const allocations::counted count;
            std::thread([&] { calls(which); }).join();  // a new thread has kept no scratch from earlier calls
            lost = allocations::taken - allocations::given_back;
        }
        INFO("allocation " << which);
        CHECK(lost == 0);
    }
    CHECK(done);
    CHECK(refusals >= 1);
    for (long which = 0; which < 3; ++which) {  // memory is gone for good
        const allocations::counted count;
        allocations::for_good = true;
        std::thread([&] { calls(which); }).join();
    }
    CHECK(wrong == 0);
    c.expect_right_results();
}

TEST_CASE("where memory ends while indices are looked at, no kernel is called") {
    if (!allocations::are_counted) SKIP("the sanitizer has an allocator of its own");
    index_calls::call c;
    std::vector<std::int32_t> row_of(index_calls::batches * index_calls::queries, 2);
    c.keys(4), c.values(4), c.reals("rows", {5});
    c.add("row_of", {row_of.data(), {index_calls::batches, index_calls::queries}});
    const attune::kernel only = index_calls::call::kernel_of();
    const auto table = index_calls::call::table_of(attune::dsl::ir_of<formulas::by_query>, only);
    const int before = index_calls::calls_made;
    const auto said = refusals_without_memory(table, c.given);
    CHECK(std::ranges::count(said, "no memory") >= 3);
    CHECK(index_calls::calls_made == before + 1 + std::ranges::count(said, "it can do without"));
}

TEST_CASE("where memory ends for the rows that a kernel keeps, the call says so") {
    if (!allocations::are_counted) SKIP("the sanitizer has an allocator of its own");
    keeps_rows call;
    call.kernels[0].call = [](void** arguments) {
        return static_cast<halide_buffer_t*>(arguments[5])->host ? 0 : 1;  // after inputs, lengths and the output
    };
    const auto said = refusals_without_memory(call.table(), call.all);
    CHECK(std::ranges::count_if(said, [](const std::string& each) {
              return each.starts_with("attune: expected memory for 320 bytes of rows that the kernel keeps");
          }) == 1);
}

TEST_CASE("where memory ends in a call that stores, nothing is stored") {
    if (!allocations::are_counted) SKIP("the sanitizer has an allocator of its own");
    index_calls::call c;
    std::vector<float> cache(index_calls::batches * index_calls::key_heads * 7 * index_calls::depth);
    c.add("k", {cache.data(), {index_calls::batches, index_calls::key_heads, 7, index_calls::depth}}), c.values(7);
    c.reals("k_new", {index_calls::batches, index_calls::key_heads, index_calls::queries, index_calls::depth});
    attune::kernel only = index_calls::call::kernel_of();
    only.stores = index_calls::note, only.saved_rows = 1000;
    const auto table = index_calls::call::table_of(attune::dsl::ir_of<formulas::stored>, only);
    const int before = index_calls::calls_made;
    const auto said = refusals_without_memory(table, c.given);
    CHECK(std::ranges::count_if(said, [](const std::string& each) {
              return each.starts_with("attune: expected memory for 96000 bytes of rows that the kernel keeps");
          }) == 1);
    const auto made = 1 + std::ranges::count(said, "it can do without");
    CHECK(index_calls::calls_made == before + 2 * made);  // stores, and the attention
}

TEST_CASE("a pool for which there is no memory is done without") {
    if (!allocations::are_counted) SKIP("the sanitizer has an allocator of its own");
    wide_call c;
    const auto all = c.arguments();
    attune::detail::call(fake::kernels(), all, {.threads = 1});
    const auto expected = c.out;
    int wrong = 0;
    for (const bool for_good : {false, true})
        for (long which = 0; which < 12; ++which) {
            const pid_t child = ::fork();  // which has no pool yet
            if (child == 0) {
                ::alarm(300);  // a child that hangs is ended; one that is stopped for minutes is not
                int result = 1;
                {
                    const allocations::counted count;
                    allocations::for_good = for_good, allocations::until_refusal = which;
                    try {
                        attune::detail::call(fake::kernels(), all, {.threads = 3});
                        result = c.out == expected ? 0 : 2;
                    } catch (const attune::error&) {
                        result = 0;
                    } catch (const std::bad_alloc&) {
                        result = 0;
                    }
                }
                ::_exit(result);
            }
            int status = 1;
            ::waitpid(child, &status, 0);
            wrong += status != 0;
        }
    CHECK(wrong == 0);
}

TEST_CASE("a refused call leaks nothing") {
    if (!allocations::are_counted) SKIP("the sanitizer has an allocator of its own");
    wide_call c;
    auto all = c.arguments();
    all[0].view = attune::tensor(c.q.data(), {4, 8, 16, 7});
    CHECK(fake::refusal(all) != "");
    long taken, given_back;
    {
        const allocations::counted count;
        for (int i = 0; i < 10; ++i) fake::refusal(all);
        taken = allocations::taken, given_back = allocations::given_back;
    }
    CHECK(taken == given_back);
    fake::next_mischief = fake::mischief::task_fails;
    CHECK(fake::refusal(c.arguments(), {.threads = 1}) != "");
    const auto arguments = c.arguments();
    {
        const allocations::counted count;
        for (int i = 0; i < 10; ++i) fake::refusal(arguments, {.threads = 1});
        taken = allocations::taken, given_back = allocations::given_back;
    }
    fake::reset();
    CHECK(taken == given_back);
}

TEST_CASE("sixteen threads call with the same inputs and their own outputs") {
    wide_call shared;
    REQUIRE(fake::refusal(shared.arguments(), {.threads = 1}) == "");
    const auto expected = shared.out;
    const auto inputs = shared.arguments();
    std::atomic<int> wrong{0};
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 16; ++caller)
        callers.emplace_back([&, caller] {
            for (int round = 0; round < 25; ++round) {
                std::vector<float> out(shared.out.size(), -1.0f), lse(shared.lse.size(), -1.0f);
                auto all = inputs;
                all[9].view = attune::tensor(out.data(), all[9].view.shape());
                all[10].view = attune::tensor(lse.data(), all[10].view.shape());
                if (round % 5 == 4) {  // and some of them are refused
                    all[0].view = attune::tensor(shared.q.data(), {4, 8, 16, 7});
                    if (fake::refusal(all, {.threads = 2}).empty() || out[0] != -1.0f) ++wrong;
                } else if (fake::refusal(all, {.threads = 1 + (caller + round) % 3}) != "" || out != expected) {
                    ++wrong;
                }
            }
        });
    for (auto& caller : callers) caller.join();
    CHECK(wrong == 0);
}

TEST_CASE("sixteen threads write their parts of one output") {
    wide_call shared;
    REQUIRE(fake::refusal(shared.arguments(), {.threads = 1}) == "");
    constexpr std::int64_t callers = 16;
    const std::int64_t b = shared.batches, h = shared.heads, l = shared.queries, d = shared.value_depth,
                       row = callers * h * d;
    // (batch, query, caller, head, depth): neighbours in memory are other threads'.
    std::vector<float> out(shared.out.size() * callers, -1.0f), lse(shared.lse.size() * callers, -1.0f);
    const auto part = [&](std::int64_t caller) {
        auto all = shared.arguments();
        all[9].view = attune::tensor(out.data() + caller * h * d, {b, h, l, d}, {l * row, d, row, 1});
        all[10].view = attune::tensor(lse.data() + caller * h, {b, h, l}, {l * callers * h, 1, callers * h});
        return all;
    };
    std::atomic<int> wrong{0};
    {
        std::vector<std::jthread> threads;
        for (std::int64_t caller = 0; caller < callers; ++caller)
            threads.emplace_back([&, caller] {
                for (int round = 0; round < 10; ++round)
                    wrong += fake::refusal(part(caller), {.threads = 1 + round % 3}) != "";
            });
    }
    CHECK(wrong == 0);
    for (std::int64_t i = 0; i < b * h * l * d * callers; ++i) {
        const std::int64_t at_d = i % d, at_h = i / d % h, at_q = i / row % l, at_b = i / row / l;
        wrong += out[static_cast<std::size_t>(i)] !=
                 shared.out[static_cast<std::size_t>(((at_b * h + at_h) * l + at_q) * d + at_d)];
    }
    for (std::int64_t i = 0; i < b * h * l * callers; ++i) {
        const std::int64_t at_h = i % h, at_q = i / (callers * h) % l, at_b = i / (callers * h) / l;
        wrong += lse[static_cast<std::size_t>(i)] != shared.lse[static_cast<std::size_t>((at_b * h + at_h) * l + at_q)];
    }
    CHECK(wrong == 0);
}

#if !defined(__SANITIZE_THREAD__)  // which does not let a forked process start threads
TEST_CASE("forks in the middle of other threads' calls") {
    wide_call shared;
    REQUIRE(fake::refusal(shared.arguments(), {.threads = 3}) == "");
    const auto expected = shared.out;
    std::atomic<bool> stop{false};
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 3; ++caller)
        callers.emplace_back([&] {
            for (wide_call c; !stop;) fake::refusal(c.arguments(), {.threads = 3});
        });
    int wrong = 0;
    for (int i = 0; i < 30; ++i) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::alarm(300);  // a child that waits for a thread it does not have is ended
            wide_call c;
            ::_exit(fake::refusal(c.arguments(), {.threads = 3}) == "" && c.out == expected ? 0 : 1);
        }
        int status = 1;
        ::waitpid(child, &status, 0);
        wrong += status != 0;
    }
    stop = true;
    for (auto& caller : callers) caller.join();
    CHECK(wrong == 0);
}
#endif
