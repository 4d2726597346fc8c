// The explanation of a recurrence's call: its chunk, whether it solves, and that nothing is split.
#include "drawn_call.hpp"
#include "kernels.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>

using namespace attune;
using attune::testing::drawn_call;

namespace {

namespace of = state_kernels;

explanation explained(const kernel_table& table, std::int64_t tokens) {
    drawn_call call(table, tokens, 16, 16);
    return detail::explain(call.table, call.arguments(), {});
}
bool says(const explanation& what, std::string_view begin) {
    return std::ranges::any_of(what.semantics, [&](const std::string& each) { return each.starts_with(begin); });
}

}  // namespace

TEST_CASE("a call says how many tokens its chunks have, and that a state is no task for two threads", "[state]") {
    for (const auto& [tokens, chunk] : {std::pair<std::int64_t, int>{100, 16}, {17, 16}, {4, 4}, {1, 1}}) {
        const explanation what = explained(detail::table_of<of::gated_on>(), tokens);
        INFO(tokens << " tokens: " << what.schedule);
        CHECK(what.query_block == chunk);
        CHECK(what.schedule.find("\"block\":" + std::to_string(chunk)) != std::string::npos);
        CHECK(what.key_splits == 0);
        CHECK(what.split_bytes == 0);
        CHECK(says(what, "chunks: "));
    }
}

TEST_CASE("a call says that it solves where what tokens write depends on each other", "[state]") {
    CHECK(says(explained(detail::table_of<of::gated_on>(), 20), "solve: "));
    CHECK(says(explained(detail::table_of<of::rwkv7_on>(), 20), "solve: "));
    CHECK_FALSE(says(explained(detail::table_of<of::gla_on>(), 20), "solve: "));
    CHECK_FALSE(says(explained(detail::table_of<of::mamba2_on>(), 20), "solve: "));
}

TEST_CASE("few tokens of small states are no work for a second thread", "[state]") {
    const auto threads_of = [](std::int64_t tokens) {
        drawn_call call(detail::table_of<of::gated_on>(), tokens, 16, 16);
        return detail::explain(call.table, call.arguments(), {.threads = 2}).threads;
    };
    CHECK(threads_of(1) == 1);
    CHECK(threads_of(100) == 1);
    CHECK(threads_of(4000) == 2);
}
