// Prepared calls: what was checked once cannot change, what can change is checked by each call.
#include "allocations.hpp"
#include "fake_variant.hpp"
#include "index_formulas.hpp"

#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/error.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

using Catch::Matchers::ContainsSubstring;

namespace {

auto prepared_of(fake::call& c, const attune::options& how = {}) {
    return attune::detail::prepare(fake::kernels(), c.arguments(), how);
}

/// The sentence of a call's refusal; empty if it is not refused.
template <class Make> std::string refusal_of(Make make) {
    try {
        make();
    } catch (const attune::error& e) {
        return e.what();
    }
    return "";
}

int nothing(void**) { return 0; }

}  // namespace

TEST_CASE("a prepared call reads what is in its tensors at each call") {
    fake::call c;
    using namespace fake;
    const auto call = attune::prepare<variant>(
        out = c.O(), w = 1, q = c.Q(), k = c.K(), v = c.V(), fake::slopes = c.S(), bias = c.B(), is_global = c.G(),
        fake::table = c.T(), gain = 0.5, lse = c.L(), attune::options{.threads = 1});
    CHECK(c.untouched());
    call();
    c.expect_right_results();
    for (float& each : c.q) each *= -0.5f;
    for (float& each : c.v) each += 1;
    const auto copy = call;
    copy();
    c.expect_right_results();
    CHECK(call.explain().text() == copy.explain().text());
    CHECK(call.blocks().total() == copy.blocks().total());
}

TEST_CASE("arguments of typed calls arrive in the order of the graph, whatever theirs is") {
    fake::call c;
    using namespace fake;
    using kept =
        attune::detail::named_arguments<decltype(out = c.O()), decltype(w = 1), attune::options,
                                        decltype(kv_lengths = c.O()), decltype(q = c.Q()), decltype(lse = c.L()),
                                        decltype(fake::table = c.T()), decltype(k = c.K())>;
    const auto list =
        attune::detail::list_of<variant>(kept{}, out = c.O(), w = 1, attune::options{}, kv_lengths = c.O(), q = c.Q(),
                                         lse = c.L(), fake::table = c.T(), k = c.K());
    const attune::graph_ir& graph = fake::kernels().graph;
    std::vector<std::string_view> expected, names;
    for (const auto& each : graph.inputs)
        if (each.name == "q" || each.name == "k" || each.name == "w" || each.name == "table")
            expected.push_back(each.name);
    expected.push_back("kv_lengths");
    for (const auto& each : graph.outputs) expected.push_back(each.name);
    for (const auto& each : list.given) names.push_back(each.name);
    CHECK(names == expected);
}

TEST_CASE("what can be known of a call is refused when it is prepared") {
    fake::call c;
    auto all = c.arguments();
    all[0].view = {c.q.data(), {1, 1, 1, 3}};
    CHECK_THAT(refusal_of([&] { attune::detail::prepare(fake::kernels(), all, {}); }), ContainsSubstring("expected "));
    CHECK_THAT(refusal_of([&] { prepared_of(c, {.target = "x86-64-v9"}); }), ContainsSubstring("x86-64-v9"));
    CHECK_THAT(refusal_of([&] { prepared_of(c, {.threads = -2}); }), ContainsSubstring("got -2"));
    CHECK(c.untouched());
}

TEST_CASE("arguments and options of a prepared call are its own") {
    fake::call c;
    auto all = c.arguments();
    attune::options how{.threads = 1};
    const auto call = attune::detail::prepare(fake::kernels(), all, how);
    all.clear(), all.shrink_to_fit();
    how.threads = -2;
    fake::reset();
    attune::detail::call(*call);
    c.expect_right_results();
    std::string level;
    for (const attune::kernel_list::entry& each : attune::detail::kernels(fake::kernels()).entries)
        if (each.missing.empty()) level = each.target;
    REQUIRE(level != "");
    const auto named = prepared_of(c, {.target = level});
    const std::string said = explain(*named).text();
    level.assign(level.size(), '?');
    CHECK(explain(*named).text() == said);
}

TEST_CASE("lengths are checked by each prepared call, before anything is written") {
    fake::call c;
    c.lengths = {7, 3};
    auto all = c.arguments();
    all.push_back({.name = "kv_lengths", .view = attune::tensor(c.lengths.data(), {2})});
    const auto call = attune::detail::prepare(fake::kernels(), all, {.threads = 1});
    for (const std::int32_t wrong : {8, -1}) {
        c.lengths[1] = wrong;
        fake::reset();
        CHECK_THAT(refusal_of([&] { attune::detail::call(*call); }),
                   ContainsSubstring("got " + std::to_string(wrong) + " for batch element 1"));
        CHECK(fake::seen.calls == 0);
        CHECK(c.untouched());
    }
    c.lengths[1] = 5;
    attune::detail::call(*call);
    c.expect_right_results();
}

TEST_CASE("page tables and lengths that change are checked as by a call of its own") {
    constexpr std::int64_t batches = 3, key_heads = 2, pages = 9, tokens = 4, blocks = 21, depth = 8;
    std::vector<float> q(batches * 4 * depth), out(q.size()), pool(pages * key_heads * tokens * depth);
    std::vector<std::int32_t> table(batches * blocks), lengths(batches);
    const bool dense = GENERATE(true, false);  // or a table whose blocks lie apart
    std::vector<std::int32_t> apart(table.size() * 2, -1);
    const auto view = [](std::string_view name, attune::tensor t) {
        return attune::detail::named_argument{.name = name, .view = t};
    };
    const std::vector<attune::detail::named_argument> given{
        view("q", {q.data(), {batches, 4, 1, depth}}),
        view("k_pages", {pool.data(), {pages, key_heads, tokens, depth}}),
        view("v_pages", {pool.data(), {pages - 1, key_heads, tokens, depth}}),
        view("block_table", dense ? attune::tensor(table.data(), {batches, blocks})
                                  : attune::tensor(apart.data(), {batches, blocks}, {2 * blocks, 2})),
        view("kv_lengths", {lengths.data(), {batches}}),
        view("out", {out.data(), {batches, 4, 1, depth}})};
    constexpr auto f32 = attune::element_type::f32;
    const attune::kernel only{"idle", formulas::level, f32,    f32, f32, f32, depth, depth, 16, 32, 1000,
                              "{}",   nothing,         nullptr};
    const attune::kernel_table idle{.version = attune::kernel_table_version,
                                    .variant = "idle",
                                    .graph = attune::dsl::ir_of<formulas::paged>,
                                    .kernels = {&only, 1}};
    const auto call = attune::detail::prepare(idle, given, {});
    std::mt19937 random(7);
    const auto below = [&](std::int64_t n) { return static_cast<std::int32_t>(random() % static_cast<unsigned>(n)); };
    int refused = 0;
    for (int round = 0; round < 3000; ++round) {
        for (auto& each : lengths) each = below(blocks * tokens + 1);
        for (auto& each : table) each = below(pages - 1);
        const std::int32_t wrong[] = {-1,
                                      pages - 1,
                                      pages,
                                      1 << 30,
                                      std::numeric_limits<std::int32_t>::min(),
                                      std::numeric_limits<std::int32_t>::max()};
        for (int spoilt = below(3); spoilt > 0; --spoilt)
            table[static_cast<std::size_t>(below(batches * blocks))] = wrong[below(6)];
        if (below(50) == 0) lengths[static_cast<std::size_t>(below(batches))] = blocks * tokens + 1;
        for (std::size_t i = 0; i < table.size(); ++i) apart[2 * i] = table[i];
        const std::string said = refusal_of([&] { attune::detail::call(idle, given, {}); });
        REQUIRE(refusal_of([&] { attune::detail::call(*call); }) == said);
        refused += !said.empty();
    }
    CHECK(refused > 500);
    CHECK(refused < 2500);
}

TEST_CASE("a prepared call takes nothing from the system") {
    if (!allocations::are_counted) SKIP("the sanitizer has an allocator of its own");
    fake::call c;
    const auto call = prepared_of(c, {.threads = 1});
    attune::detail::call(*call);
    const allocations::counted count;
    attune::detail::call(*call);
    CHECK(allocations::taken == 0);
    CHECK(allocations::given_back == 0);
}

TEST_CASE("the environment is read when a call is prepared, the number of threads at each call") {
    fake::call c;
    const auto call = prepared_of(c);
    ::setenv("ATTUNE_TARGET", "x86-64-v9", 1);
    CHECK_THAT(refusal_of([&] { attune::detail::call(fake::kernels(), c.arguments(), {}); }),
               ContainsSubstring("x86-64-v9"));
    CHECK(refusal_of([&] { attune::detail::call(*call); }).empty());
    ::unsetenv("ATTUNE_TARGET");
    attune::set_threads(1);
    fake::reset();
    attune::detail::call(*call);
    CHECK(fake::seen.most_running == 1);
    attune::set_threads(0);
}

TEST_CASE("an empty prepared call writes its sums at each call") {
    fake::call c;
    c.batches = 0;
    c.fill();
    const auto call = prepared_of(c);
    fake::reset();
    attune::detail::call(*call);
    attune::detail::call(*call);
    CHECK(fake::seen.calls == 0);
}

TEST_CASE("several threads make one prepared call, each with places of its own") {
    fake::call c;
    static std::atomic<int> made{0};
    std::vector<attune::kernel> kernels(fake::kernels().kernels.begin(), fake::kernels().kernels.end());
    for (attune::kernel& each : kernels) each.call = [](void**) { return ++made, 0; };  // writes no output
    attune::kernel_table counting = fake::kernels();
    counting.kernels = kernels;
    const auto call = attune::detail::prepare(counting, c.arguments(), {});
    std::vector<std::thread> callers;
    for (int i = 0; i < 4; ++i)
        callers.emplace_back([&] {
            for (int round = 0; round < 50; ++round) attune::detail::call(*call);
        });
    for (auto& caller : callers) caller.join();
    CHECK(made == 200);
}
