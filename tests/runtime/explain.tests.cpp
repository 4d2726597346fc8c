#include "fake_variant.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using Catch::Matchers::ContainsSubstring;

TEST_CASE("blocks are those of the kernel, without outputs and without running it") {
    fake::call c;
    fake::reset();
    using namespace fake;
    const auto map = attune::blocks<variant>(q = c.Q(), k = c.K(), v = c.V(), fake::slopes = c.S(), bias = c.B(), is_global = c.G(), fake::table = c.T(), w = 1, gain = 1);
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
    const auto e = attune::explain<variant>(q = c.Q(), k = c.K(), v = c.V(), fake::slopes = c.S(), bias = c.B(), is_global = c.G(), fake::table = c.T(), w = 1, gain = 1, attune::options{.threads = 3});
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
    CHECK_THAT(e.text(), ContainsSubstring("blocks    32 of 48 (66.7 %) visited, 16 of them without a mask; 2 queries x 4 keys each\n") && ContainsSubstring("memory    at most 56 B of scratch a thread\n") &&
                             ContainsSubstring("threads   3\n"));
    CHECK_THAT(e.json(), ContainsSubstring(R"("kernel": "attune_fake_f32_d8x4")") && ContainsSubstring(R"("blocks_visited": 32)") && ContainsSubstring(R"("schedule": {"query_tile": 2}})"));
    CHECK(c.untouched());
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
    CHECK_THAT(list.text(), ContainsSubstring("    opencl  f32  8x4  does not run here: lacks ") && ContainsSubstring("bf16  8x4  chosen: "));
    CHECK_THAT(list.json(), ContainsSubstring(R"("symbol": "attune_fake_f32_d16x16")"));
}
