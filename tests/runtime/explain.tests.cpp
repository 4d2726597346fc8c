#include "by_hand.hpp"
#include "fake_variant.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <cstdlib>

using Catch::Matchers::ContainsSubstring;

TEST_CASE("blocks are those of the kernel, without outputs and without running it") {
    fake::call c;
    fake::reset();
    using namespace fake;
    const auto map = attune::blocks<variant>(q = c.Q(), k = c.K(), v = c.V(), fake::slopes = c.S(), bias = c.B(),
                                             is_global = c.G(), fake::table = c.T(), w = 1, gain = 1);
    CHECK(map.batches == 2);
    CHECK(map.heads == 4);
    CHECK(map.query_blocks == 3);  // 5 queries by 2
    CHECK(map.key_blocks == 2);    // 7 keys by 4
    CHECK(map.total() == 48);
    CHECK(map.at(1, 3, 0, 0) == 1);
    CHECK(map.at(1, 3, 0, 1) == 0);
    CHECK(map.at(0, 1, 2, 1) == 2);
    CHECK(map.visited() == 8 * 4);
    CHECK(map.unmasked() == 8 * 2);
    // a head: tiles (0,0) and (1,0) of 2 x 4 pairs, then a last query against 4 and 3 keys
    CHECK(map.pairs_visited(5, 7) == 8 * (8 + 8 + 4 + 3));
    CHECK(fake::seen.calls == 0);
}

TEST_CASE("explain says what a call would do") {
    fake::call c;
    using namespace fake;
    const auto e =
        attune::explain<variant>(q = c.Q(), k = c.K(), v = c.V(), fake::slopes = c.S(), bias = c.B(), is_global = c.G(),
                                 fake::table = c.T(), w = 1, gain = 1, attune::options{.threads = 3});
    CHECK(e.kernel == "attune_fake_f32_d8x4");
    CHECK(e.threads == 3);
    CHECK(e.batches == 2);
    CHECK(e.heads == 4);
    CHECK(e.key_heads == 2);
    CHECK(e.blocks_visited == 32);
    CHECK(e.blocks == 48);
    CHECK(e.flops == 2.0 * 8 * 23 * (8 + 4));
    CHECK(e.input_bytes == 4 * (2 * 4 * 5 * 8 + 2 * 2 * 7 * 8 + 2 * 2 * 7 * 4 + 4 + 2 * 4 * 5 * 7 + 1) + 7 + 2 * 4);
    CHECK(e.output_bytes == 4 * (2 * 4 * 5 * 4 + 2 * 4 * 5));
    CHECK(e.scratch_bytes == 56);
    CHECK_THAT(e.why, ContainsSubstring("the most demanding level of those linked (opencl; "));
    CHECK_THAT(
        e.text(),
        ContainsSubstring(
            "blocks    32 of 48 (66.7 %) visited, 16 of them without a mask; 2 queries x 4 keys each\n") &&
            ContainsSubstring("memory    at most 56 B of scratch a thread, 0 B kept from one pass to the next, "
                              "54 B of tables of conditions; 222 B in all; 16.38 KB of the caller's stack\n") &&
            ContainsSubstring("threads   3; no bit of the result depends on their number or on the batch\n") &&
            ContainsSubstring(
                "\ninputs    q: f32 tensor (batch 2, head 4, query 5, depth 8)\n          k: f32 tensor") &&
            ContainsSubstring("          gain: f32 number\n") &&
            ContainsSubstring("\noutputs   out: f32 output (batch 2, head 4, query 5, value_depth 4)\n          "
                              "lse: f32 row (batch 2, head 4, query 5)\n") &&
            ContainsSubstring(
                "          kv_idx - q_idx <= w || is_global(kv_idx): skips: the smallest and largest values of "
                "each tile decide\n"
                "          kv_idx != table(0): skips nothing: for this test\n") &&
            ContainsSubstring("\nmeaning   alignment: top-left: query i sees no key after i\n"
                              "          fewer queries than keys: causal counts both from the first, so no query sees "
                              "a key after 4; if the queries are the last ones, as over a cache, write "
                              "causal_bottom_right\n"
                              "          query head h reads key head h / 2\n"));
    const auto j = nlohmann::json::parse(e.json());
    CHECK(j["inputs"].size() == 9);
    CHECK(j["inputs"][1] == nlohmann::json{{"name", "k"},
                                           {"is", "tensor"},
                                           {"element", "f32"},
                                           {"axes", {"batch", "key_head", "key", "depth"}},
                                           {"shape", {2, 2, 7, 8}}});
    CHECK(j["outputs"][1]["is"] == "row");
    CHECK(j["conditions"][0]["text"] == "kv_idx - q_idx <= w || is_global(kv_idx)");
    CHECK(j["workspace_bytes"] == 222);
    CHECK(j["stack_bytes"] == 16384);
    CHECK(j["semantics"].back() == "query head h reads key head h / 2");
    CHECK_THAT(e.json(), ContainsSubstring(R"("kernel": "attune_fake_f32_d8x4")") &&
                             ContainsSubstring(R"("blocks_visited": 32)") &&
                             ContainsSubstring(R"("schedule": {"query_tile": 2}})"));
    CHECK(c.untouched());
}

namespace {

/// The explanation of scores over q and k, and of what `finish` makes of them.
template <class Finish>
attune::explanation explained(Finish finish, int saved_rows = 0, int (*blocks)(void**) = nullptr) {
    using namespace by_hand;
    graph g;
    g.saved_rows = saved_rows;
    finish(g, g.scores(g.q(), g.k()));
    auto kernels = kernels_of(g);
    kernels[0].blocks = blocks;
    const attune::kernel_table table{
        .version = attune::kernel_table_version, .variant = "by::hand", .graph = g.graph_ir(), .kernels = kernels};
    static float q[2 * 4 * 5 * 8], k[2 * 2 * 7 * 8];
    arguments given{view("q", attune::tensor(q, {2, 4, 5, 8})), view("k", attune::tensor(k, {2, 2, 7, 8}))};
    return attune::detail::explain(table, given, {.threads = 64});
}

}  // namespace

TEST_CASE("explain says whether determinism was asked for") {
    fake::call c;
    const auto asked = [&](const attune::options& how) {
        return attune::detail::explain(fake::kernels(), c.arguments(), how).deterministic;
    };
    CHECK_FALSE(asked({}));
    CHECK(asked({.deterministic = true}));
    ::setenv("ATTUNE_DETERMINISTIC", "1", 1);
    CHECK(asked({}));
    ::setenv("ATTUNE_DETERMINISTIC", "0", 1);
    CHECK_FALSE(asked({}));
    ::setenv("ATTUNE_DETERMINISTIC", "yes", 1);
    CHECK_THROWS_AS(asked({}), attune::error);
    ::unsetenv("ATTUNE_DETERMINISTIC");
}

TEST_CASE("explain counts every byte that a call takes") {
    using namespace by_hand;
    const auto weights = [](graph& g, node_id s) {
        g.output("weights", g.softmax(s)),
            g.output("used", g.add(operation::sum_over_queries, kind::column, {g.softmax(s)}));
    };
    const auto e = explained(weights, 2, [](void** arguments) {
        void* const context = *static_cast<void**>(arguments[0]);
        void *const table = halide_malloc(context, 1000), *const other = halide_malloc(context, 128);
        halide_free(context, table), halide_free(context, other);
        halide_free(context, halide_malloc(context, 256));
        // what tasks take is theirs
        return halide_do_par_for(
            context,
            [](void* context, int, std::uint8_t*) { return halide_free(context, halide_malloc(context, 100000)), 0; },
            0, 4, nullptr);
    });
    CHECK(e.saved_bytes == 2 * 4 * (2 * 4 * 5));
    CHECK(e.table_bytes == 1024 + 128 + 8 * 9);  // 8 tiles of queries meet a block of keys each
    CHECK(e.scratch_bytes == 1000);
    CHECK(e.workspace_bytes == 1000 * 8 + e.saved_bytes + e.table_bytes);  // 64 threads share 8 tiles of queries
    CHECK(e.flops == 2.0 * 8 * 5 * 7 * 8);                                 // as the kernel's record says
    CHECK(e.outputs[1].shape == std::vector<std::int64_t>{2, 4, 7});
    CHECK(e.output_bytes == 4 * (2 * 4 * 5 * 7 + 2 * 4 * 7));
    CHECK_THAT(
        e.text(),
        ContainsSubstring("used: f32 column (batch 2, head 4, key 7)\n") &&
            ContainsSubstring("320 B kept from one pass to the next, 1.22 KB of tables of conditions; 9.54 KB in all; "
                              "16.38 KB of the caller's stack\n"));
}

TEST_CASE("explain of an empty call") {
    fake::call c;
    c.keys = 0;
    c.fill();
    const auto e = attune::detail::explain(fake::kernels(), c.arguments(), {});
    CHECK(e.blocks == 0);
    CHECK(e.flops == 0);
}

TEST_CASE("the linked kernels are listed, with what runs and what would be chosen") {
    const auto list = attune::kernels<fake::variant>();
    REQUIRE(list.entries.size() == 4);
    CHECK(list.variant == "fake::variant");
    CHECK_FALSE(list.entries[0].chosen);
    CHECK_FALSE(list.entries[0].missing.empty());
    for (std::size_t i = 1; i < 4; ++i) CHECK(list.entries[i].chosen);
    CHECK_THAT(list.text(), ContainsSubstring("    opencl  f32  8x4  prefill  does not run here: lacks ") &&
                                ContainsSubstring("bf16  8x4  prefill  chosen: "));
    CHECK_THAT(list.json(), ContainsSubstring(R"("symbol": "attune_fake_f32_d16x16")"));
}
