// From a database's threshold to the kernel of a call: two kernels of one graph, linked, chosen by the number of
// queries; and one for a GPU, with a schedule of that GPU's.
#include "short_calls.hpp"

#include <attune/runtime.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <limits>

using namespace attune;
using Catch::Matchers::ContainsSubstring;

namespace {
constexpr auto& graph = short_calls::causal_attention;

/// A call of so many queries and keys; `run` is given the arguments.
template <class Run> auto called(std::int64_t length, Run run) {
    support::workload call(
        dsl::ir_of<graph>,
        {.batches = 2, .heads = 2, .key_heads = 1, .queries = length, .keys = length, .depth = 8, .value_depth = 8}, 3);
    return run(call);
}
}  // namespace

TEST_CASE(
    "calls up to the database's threshold run its schedule for short calls, longer ones the usual one, and both are "
    "right") {
    for (const std::int64_t length : {1, 16, 23, 24, 25, 26, 64, 65, 200}) {
        CAPTURE(length);
        const bool is_short = length <= 24;
        const explanation said = called(length, [](support::workload& call) {
            return detail::explain(detail::table_of<graph>(), call.arguments(), {.threads = 1});
        });
        CHECK(said.query_block == (is_short ? 16 : 64));
        CHECK(said.key_block == (is_short ? 16 : 32));
        CHECK_THAT(said.schedule, ContainsSubstring(is_short ? "\"query_block\":16," : "\"query_block\":64,"));
        CHECK((said.kernel.find("_short24_") != said.kernel.npos) == is_short);
        CHECK_THAT(said.shapes,
                   ContainsSubstring(
                       is_short ? "prefill, for 1 to 24 queries (also linked: prefill, for any number of queries)"
                                : "prefill, for any number of queries (also linked: prefill, for 1 to 24 queries)"));
        CHECK_THAT(said.text(), ContainsSubstring(said.kernel));
        const double error = called(length, [](support::workload& call) {
            detail::call(detail::table_of<graph>(), call.arguments(), {.threads = 1});
            return call.largest_error(call.expected(), "out");
        });
        CHECK(error < 2e-5);
    }
}

TEST_CASE("both kernels are listed with the lengths that they are for") {
    kernel_list all = kernels<graph>();
    std::erase_if(all.entries,
                  [](const kernel_list::entry& e) { return e.target == "opencl"; });  // where it has one kernel
    REQUIRE(all.entries.size() % 2 == 0);                                             // of each level
    CHECK(std::any_of(all.entries.begin(), all.entries.end(), [](const kernel_list::entry& e) { return e.chosen; }));
    for (std::size_t i = 0; i < all.entries.size(); i += 2) {
        CHECK(all.entries[i].to_queries == 24);
        CHECK(all.entries[i + 1].to_queries == std::numeric_limits<int>::max());
        CHECK(all.entries[i].target == all.entries[i + 1].target);
        CHECK(all.entries[i].chosen == all.entries[i + 1].chosen);  // where one runs, some calls run either
    }
}

TEST_CASE("a GPU's kernel has that GPU's measured schedule, and is right") {
    const kernel_list all = kernels<graph>();
    const auto there = std::find_if(all.entries.begin(), all.entries.end(),
                                    [](const kernel_list::entry& e) { return e.target == "opencl"; });
    if (there == all.entries.end() || !there->missing.empty()) SKIP("no OpenCL device here");
    for (const std::int64_t length : {1, 15, 16, 17, 100}) {
        CAPTURE(length);
        const explanation said = called(length, [](support::workload& call) {
            return detail::explain(detail::table_of<graph>(), call.arguments(), {.target = "opencl"});
        });
        CHECK(said.target == "opencl");
        CHECK(said.query_block == 16);
        CHECK(said.key_block == 16);
        CHECK_THAT(said.schedule, ContainsSubstring("\"query_tile\":2,"));
        const double error = called(length, [](support::workload& call) {
            detail::call(detail::table_of<graph>(), call.arguments(), {.target = "opencl"});
            return call.largest_error(call.expected(), "out");
        });
        CHECK(error < 2e-5);
    }
}
