// Kernels for few queries on a device: each head's keys in parts, merged by a second kernel.
#include "decode.hpp"
#include "../support/workload_values.hpp"
#include "finite.hpp"

#include <attune/reference.hpp>
#include <attune/runtime/run.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace attune;
using Catch::Matchers::ContainsSubstring;
using support::shape;
using support::workload;

namespace {

std::string missing() { return kernels<decode::last>().entries.front().missing; }

template <const auto& Graph>
void check(const shape& of, const std::vector<std::int32_t>& lengths = {},
           const options& how = {.target = ATTUNE_GPU_TARGET}, double tolerance = 3e-5) {
    const graph_ir graph = dsl::ir_of<Graph>;
    workload call(graph, of, 7);
    for (const input_declaration& input : graph.inputs)
        if (input.name == "slopes") scale_by(call, "slopes", 0.05f);  // scores of some tens
    if (!lengths.empty()) call.set_lengths(lengths);
    const auto expected = call.expected();
    detail::call(detail::table_of<Graph>(), call.arguments(), how);
    for (const output_declaration& output : graph.outputs) {
        INFO(of.text() << " " << output.name);
        CHECK(call.largest_error(expected, output.name) < tolerance);
    }
    CHECK(outputs_untouched(call, true));
}

/// At the edges of rows, of blocks of 64 keys, of parts of the keys, and of what the kernel serves.
template <const auto& Graph> void check_edges() {
    for (const std::int64_t queries : {1, 2, 15, 16, 17})
        for (const std::int64_t keys : {1, 63, 64, 65, 700})
            check<Graph>({.batches = 2, .heads = 6, .key_heads = 2, .queries = queries, .keys = keys});
    check<Graph>({.heads = 5, .key_heads = 1, .queries = 3, .keys = 2100, .gaps = true});
    check<Graph>({.batches = 3, .heads = 4, .key_heads = 4, .queries = 1, .keys = 1000, .gaps = true});
}

}  // namespace

TEST_CASE("a device's kernel for few queries computes what the reference does") {
    if (!missing().empty()) SKIP("no " ATTUNE_GPU_TARGET " device here: lacks " << missing());
    check_edges<decode::last>();
    check_edges<decode::ends>();
}

TEST_CASE(
    "on a device no key beyond those in use is read, all of none are hidden, and more parts than blocks are no harm") {
    if (!missing().empty()) SKIP("no " ATTUNE_GPU_TARGET " device here: lacks " << missing());
    for (const bool as_many_parts_as_there_are : {false, true}) {
        const options how{.target = ATTUNE_GPU_TARGET, .deterministic = as_many_parts_as_there_are};
        check<decode::last>({.batches = 4, .heads = 6, .key_heads = 2, .queries = 5, .keys = 700, .gaps = true},
                            {0, 1, 128, 333}, how);
        check<decode::ends>({.batches = 4, .heads = 6, .key_heads = 2, .queries = 1, .keys = 700}, {0, 1, 64, 699},
                            how);
    }
}

TEST_CASE("a tensor in descending order is refused before it is copied to a device") {
    if (!missing().empty()) SKIP("no " ATTUNE_GPU_TARGET " device here: lacks " << missing());
    workload call(dsl::ir_of<decode::last>, {.queries = 1, .keys = 20}, 7);
    std::vector<detail::named_argument> given = call.arguments();
    for (detail::named_argument& each : given)
        if (each.name == "k") {
            const std::int64_t depth = each.view.extent(3), strides[] = {20 * depth, 20 * depth, -depth, 1};
            each.view = tensor(each.view.type(), static_cast<const float*>(each.view.data()) + 19 * depth,
                               each.view.shape(), strides);
        }
    CHECK_THROWS_WITH(
        detail::call(detail::table_of<decode::last>(), given, {.target = ATTUNE_GPU_TARGET}),
        ContainsSubstring("expected no stride below 0 in k, which a call copies to a GPU, got strides (") &&
            ContainsSubstring("try a copy in ascending order, or a CPU"));
}

TEST_CASE("a device runs packed queries: parts of prompts and single tokens in one call") {
    if (!missing().empty()) SKIP("no " ATTUNE_GPU_TARGET " device here: lacks " << missing());
    constexpr graph_ir graph = dsl::ir_of<decode::last>;
    std::vector<std::int32_t> starts{0, 1, 2, 2, 39, 42}, lengths{130, 7, 4, 37, 64};
    workload of_sequences(graph, {.batches = 5, .heads = 6, .key_heads = 2, .keys = 130, .gaps = true}, 7),
        packed(graph, {.heads = 6, .key_heads = 2, .queries = 42, .keys = 130, .gaps = true}, 8);
    std::vector<detail::named_argument> given = packed.arguments();
    for (detail::named_argument& each : given)
        if (each.name == "k" || each.name == "v") each.view = of_sequences.view(each.name);
    given.push_back({.name = "kv_lengths", .view = tensor(lengths.data(), {5})});
    given.push_back({.name = "cu_seqlens_q", .view = tensor(starts.data(), {6})});
    const auto expected = reference::evaluate_call("last", graph, given, {});
    const auto prepared = detail::prepare(detail::table_of<decode::last>(), given, {.target = ATTUNE_GPU_TARGET});
    detail::call(*prepared);
    for (const output_declaration& output : graph.outputs) {
        INFO(output.name);
        CHECK(packed.largest_error(expected, output.name) < 3e-5);
    }
    CHECK(outputs_untouched(packed, true));
}

TEST_CASE("on a device what is not finite in the value of a masked key adds nothing to few queries") {
    if (!missing().empty()) SKIP("no " ATTUNE_GPU_TARGET " device here: lacks " << missing());
    constexpr std::int64_t keys = 700, depth = 32;
    const auto check_with = [&](const graph_ir& graph, const kernel_table& table, std::int64_t key,
                                std::size_t seeing) {
        for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
            CAPTURE(key, value);
            workload call(graph, {.heads = 4, .key_heads = 2, .queries = 3, .keys = keys}, 7);
            for (const input_declaration& input : graph.inputs)
                if (input.name == "slopes") scale_by(call, "slopes", 0.05f);
            for (std::int64_t head = 0; head < 2; ++head)
                call["v"].reals[static_cast<std::size_t>((head * keys + key) * depth + 9)] = value;
            const auto expected = call.expected();
            detail::call(table, call.arguments(), {.target = ATTUNE_GPU_TARGET});
            std::size_t spoilt = 0, wrong = 0;
            for (std::size_t at = 0; at < expected["out"].values.size(); ++at) {
                const double wanted = expected["out"].values[at], is = call["out"].reals[at];
                spoilt += !std::isfinite(wanted);
                wrong += std::isfinite(wanted) ? !(std::abs(is - wanted) < 3e-5) : std::isfinite(is);
            }
            CHECK(wrong == 0);
            CHECK(spoilt == 4 * seeing);
        }
    };
    // Keys that one, two and three of three queries see; and one that none sees, in a block that all visit.
    check_with(dsl::ir_of<decode::last>, detail::table_of<decode::last>(), 699, 1);
    check_with(dsl::ir_of<decode::last>, detail::table_of<decode::last>(), 698, 2);
    check_with(dsl::ir_of<decode::last>, detail::table_of<decode::last>(), 64, 3);
    check_with(dsl::ir_of<decode::ends>, detail::table_of<decode::ends>(), 10, 0);
    check_with(dsl::ir_of<decode::ends>, detail::table_of<decode::ends>(), 599, 2);
}

TEST_CASE("the number of queries decides which kernel runs on a device, and explain says so") {
    if (!missing().empty()) SKIP("no " ATTUNE_GPU_TARGET " device here: lacks " << missing());
    for (const std::int64_t queries : {1, 16, 17}) {
        const workload call(dsl::ir_of<decode::last>, {.heads = 8, .key_heads = 2, .queries = queries, .keys = 4096},
                            3);
        const explanation said =
            detail::explain(detail::table_of<decode::last>(), call.arguments(), {.target = ATTUNE_GPU_TARGET});
        CHECK(said.target == ATTUNE_GPU_TARGET);
        CHECK(said.shapes == (queries <= 16
                                  ? "decode, for 1 to 16 queries (also linked: prefill, for any number of queries)"
                                  : "prefill, for any number of queries (also linked: decode, for 1 to 16 queries)"));
        // 64 blocks of keys, two of them a part at least.
        CHECK(said.key_splits == (queries <= 16 ? 32 : 0));
        CHECK((said.split_bytes > 0) == (queries <= 16));
    }
}

TEST_CASE("a device's kernels that were promised finite inputs compute what the reference does, and explain says so") {
    if (!missing().empty()) SKIP("no " ATTUNE_GPU_TARGET " device here: lacks " << missing());
    check_edges<finite_device::last>();
    // Elements beyond the keys in use are NaN: the promise does not cover them.
    for (const std::int64_t queries : {1, 5, 16, 17, 130})
        check<finite_device::last>(
            {.batches = 4, .heads = 6, .key_heads = 2, .queries = queries, .keys = 700, .gaps = true},
            {0, 1, 128, 333});

    for (const std::int64_t queries : {3, 40}) {
        const auto conventions = [&](const graph_ir& graph, const kernel_table& table) {
            const workload call(graph, {.heads = 4, .key_heads = 2, .queries = queries, .keys = 70}, 3);
            return detail::explain(table, call.arguments(), {.target = ATTUNE_GPU_TARGET}).semantics;
        };
        const auto say_finite = [](const std::vector<std::string>& sentences) {
            return std::ranges::any_of(sentences, [](const std::string& each) {
                return each.starts_with("NaN and infinities: none, as FINITE of the build promises");
            });
        };
        CHECK(say_finite(conventions(dsl::ir_of<finite_device::last>, detail::table_of<finite_device::last>())));
        CHECK_FALSE(say_finite(conventions(dsl::ir_of<decode::last>, detail::table_of<decode::last>())));
    }
}
