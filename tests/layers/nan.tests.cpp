// NaN in layers: a masked pair adds exactly nothing, and a NaN at a visible pair makes its row NaN, through projections
// as without them.
#include "in_process.hpp"
#include "layers.hpp"

#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace attune;
using namespace attune::testing;
using support::workload;

namespace {

constexpr std::int64_t width = 32, queries = 60, keys = 70;  // two heads of depth 16
const std::map<std::string, std::int64_t> widths{
    {"model", width}, {"", width}, {"query_width", 20}, {"key_width", 41}, {"value_width", 9}};
const float not_a_number = std::nanf(""), infinity = std::numeric_limits<float>::infinity();

workload call_of(const graph_ir& graph, std::int64_t key_count) {
    return workload(graph,
                    {.batches = 2,
                     .heads = 2,
                     .key_heads = 2,
                     .queries = queries,
                     .keys = key_count,
                     .depth = 16,
                     .value_depth = 16},
                    5, {}, widths);
}

std::vector<float> run(const in_process& kernel, workload& call) {
    call.reset_outputs();
    detail::call(kernel.table(), call.arguments(), {.threads = 2});
    return call["out"].reals;
}

/// Rows of the output (batch, query) that have a NaN, all of which the reference has, too; all others have the bits
/// that they had before.
std::set<std::size_t> rows_of_nan(const in_process& kernel, workload& call, const std::vector<float>& before) {
    const std::vector<float> out = run(kernel, call);
    const std::vector<double> expected = call.expected()["out"].values;
    std::set<std::size_t> rows;
    std::size_t wrong = 0, changed = 0;
    for (std::size_t at = 0; at < out.size(); ++at) {
        wrong += std::isnan(out[at]) != std::isnan(expected[at]);
        if (std::isnan(out[at]))
            rows.insert(at / static_cast<std::size_t>(width));
        else
            changed += std::memcmp(&out[at], &before[at], sizeof(float)) != 0;
    }
    CHECK(wrong == 0);
    CHECK(changed == 0);
    return rows;
}

void put(workload& call, const char* input, std::int64_t row, std::int64_t channels, float value) {
    call[input].reals[static_cast<std::size_t>(row * channels + 3)] = value;
}

}  // namespace

TEST_CASE("of a token that is padding a NaN reaches its own row alone, at every level") {
    for (const std::string& level : levels_here()) {
        CAPTURE(level);
        const in_process kernel("layer", dsl::ir_of<layers::attention>, "16", level);
        workload plain = call_of(dsl::ir_of<layers::attention>, queries);
        const auto padded = [](workload& call) {
            std::vector<std::int32_t>& padding = call["padding"].integers;
            for (std::size_t at = 0; at < padding.size(); ++at) padding[at] = at % 7 != 3;
        };
        padded(plain);
        const std::vector<float> before = run(kernel, plain);
        for (const float value : {not_a_number, infinity})
            for (const std::int64_t token : {std::int64_t{3}, std::int64_t{59}, queries + 6}) {  // masked, all of them
                workload call = call_of(dsl::ir_of<layers::attention>, queries);
                padded(call);
                put(call, "x", token, width, value);
                CAPTURE(value, token);
                CHECK(rows_of_nan(kernel, call, before) == std::set{static_cast<std::size_t>(token)});
            }
        workload call = call_of(dsl::ir_of<layers::attention>, queries);
        padded(call);
        put(call, "x", 5, width, not_a_number);  // which all tokens of its sequence see
        CHECK(rows_of_nan(kernel, call, before).size() == static_cast<std::size_t>(queries));
    }
}

TEST_CASE("under a mask of pairs a NaN of a token reaches the rows that see it alone, at every level") {
    const graph_ir graph = dsl::ir_of<layers::by_pair<element_type::boolean>>;
    for (const std::string& level : levels_here()) {
        CAPTURE(level);
        const in_process kernel("layer", graph, "16", level);
        const auto seen = [](std::int64_t query, std::int64_t key) { return (query * 3 + key) % 5 == 0; };
        const auto made = [&] {
            workload call = call_of(graph, keys);
            std::vector<std::uint8_t>& mask = call["mask"].bytes;
            for (std::size_t at = 0; at < mask.size(); ++at) {
                const auto pair = static_cast<std::int64_t>(at);
                mask[at] = seen(pair / keys % queries, pair % keys);
            }
            return call;
        };
        workload plain = made();
        const std::vector<float> before = run(kernel, plain);
        std::set<std::size_t> all_that_see;
        constexpr std::int64_t key = 41;
        for (std::int64_t query = 0; query < queries; ++query)
            if (seen(query, key)) all_that_see.insert(static_cast<std::size_t>(query));
        workload by_key = made(), by_value = made(), by_query = made();
        put(by_key, "keys_from", key, 41, not_a_number);
        put(by_value, "values_from", key, 9, not_a_number);
        put(by_query, "queries_from", 17, 20, not_a_number);
        CHECK(rows_of_nan(kernel, by_key, before) == all_that_see);
        CHECK(rows_of_nan(kernel, by_value, before) == all_that_see);
        CHECK(rows_of_nan(kernel, by_query, before) == std::set<std::size_t>{17});
    }
}
