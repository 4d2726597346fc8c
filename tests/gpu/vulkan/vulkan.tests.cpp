#include "../../support/workload_values.hpp"
#include "signs.hpp"

#include <attune/reference.hpp>
#include <attune/runtime/run.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdint>
#include <string>
#include <vector>

using namespace attune;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using support::shape;
using support::workload;

namespace {

constexpr double tolerance = 2e-5;  // absolute, of unit-normal inputs
const options on_device{.target = "vulkan"};

template <const auto& Graph> workload call_of(const shape& of) {
    const graph_ir graph = dsl::ir_of<Graph>;
    workload call(graph, of, 7, {{"w", 20}, {"cap", 5}});
    for (const input_declaration& each : graph.inputs)
        if (each.name == "slopes") scale_by(call, "slopes", 0.1f);
    return call;
}

template <const auto& Graph> void check(workload& call, const shape& of) {
    const auto expected = call.expected();
    detail::call(detail::table_of<Graph>(), call.arguments(), on_device);
    for (const output_declaration& output : dsl::ir_of<Graph>.outputs) {
        INFO(of.text() << " " << output.name);
        CHECK(call.largest_error(expected, output.name) < tolerance);
    }
    CHECK(outputs_untouched(call, true));
}

template <const auto& Graph> void check(const shape& of) {
    workload call = call_of<Graph>(of);
    check<Graph>(call, of);
}

std::string missing() { return kernels<under_test::plain>().entries.front().missing; }

}  // namespace

#define ATTUNE_ONLY_WITH_VULKAN() \
    if (!missing().empty()) SKIP("no Vulkan device here: lacks " << missing())

TEST_CASE("a Vulkan device computes what the reference does") {
    ATTUNE_ONLY_WITH_VULKAN();
    for (const shape& of : {shape{.queries = 1, .keys = 33},
                            shape{.batches = 2, .heads = 4, .key_heads = 2, .queries = 65, .keys = 97, .gaps = true}}) {
        check<under_test::plain>(of);
        check<under_test::causal_mask>(of);
        check<under_test::sliding>(of);
        check<under_test::alibi>(of);
        check<under_test::capped>(of);
        check<under_test::documents>(of);
        check<under_test::masked_by_where>(of);  // counts leading zeros
        check<under_test::signs>(of);
    }
}

TEST_CASE("queries without a key give zeros there") {
    ATTUNE_ONLY_WITH_VULKAN();
    check<under_test::causal_last>({.heads = 2, .key_heads = 1, .queries = 70, .keys = 40});
    const shape of{.batches = 3, .queries = 5, .keys = 40};
    workload call = call_of<under_test::sliding>(of);
    call.set_lengths({40, 0, 3});
    check<under_test::sliding>(call, of);
}

TEST_CASE("calls of many sizes find memory, each its own numbers") {
    ATTUNE_ONLY_WITH_VULKAN();
    for (std::int64_t i = 0; i < 30; ++i)
        check<under_test::plain>({.heads = 1 + i % 3,
                                  .key_heads = 1,
                                  .queries = 1 + 37 * i % 101,
                                  .keys = 1 + 53 * i % 211,
                                  .gaps = i % 2 == 0});
}

TEST_CASE("a call says that it runs on Vulkan, and what it cannot do there") {
    ATTUNE_ONLY_WITH_VULKAN();
    workload call = call_of<under_test::causal_mask>({.queries = 130, .keys = 130});
    const auto& kernels_of = detail::table_of<under_test::causal_mask>();
    CHECK(detail::explain(kernels_of, call.arguments(), on_device).target == "vulkan");
    int own = 0;
    CHECK_THROWS_MATCHES(detail::call(kernels_of, call.arguments(), {.target = "vulkan", .device = 1}), error,
                         MessageMatches(ContainsSubstring("expected 0 as the Vulkan device")));
    CHECK_THROWS_MATCHES(detail::call(kernels_of, call.arguments(), {.target = "vulkan", .stream = &own}), error,
                         MessageMatches(ContainsSubstring("expected no context or stream for Vulkan")));
    CHECK(outputs_untouched(call));
    CHECK_THROWS_AS(detail::call(kernels_of, call.arguments(), {}),
                    error);  // nobody asked for a GPU, and there is nothing else
}

TEST_CASE("where a device has too little memory the call says so, and the next one is served", "[.][without memory]") {
    ATTUNE_ONLY_WITH_VULKAN();
    workload large = call_of<under_test::plain>({.heads = 64, .key_heads = 64, .queries = 64, .keys = 600});
    CHECK_THROWS_MATCHES(detail::call(detail::table_of<under_test::plain>(), large.arguments(), on_device), error,
                         MessageMatches(ContainsSubstring("Maximum pool size reached")));
    CHECK(outputs_untouched(large));
    check<under_test::plain>({.queries = 20, .keys = 40});
}
