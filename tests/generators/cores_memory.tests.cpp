// The memory of calls with several softmaxes: what explain says of 1024 keys and of 16 times as many, and what calls
// take.
#include "../support/counted_scratch.hpp"
#include "cores_formulas.hpp"

#include <attune/runtime.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

using namespace attune;

namespace {

support::workload call_of(const kernel_table& table, std::int64_t queries, std::int64_t keys) {
    return support::workload(
        table.graph, {.heads = 2, .key_heads = 1, .queries = queries, .keys = keys, .depth = 16, .value_depth = 16}, 7,
        {}, {{"token", keys / 2}, {"own", keys / 2}, {"prefix", keys}});
}

explanation explained(const kernel_table& table, std::int64_t queries, std::int64_t keys) {
    return detail::explain(table, call_of(table, queries, keys).arguments(), {.threads = 2});
}

const std::vector<const kernel_table*>& tables() {
    static const std::vector<const kernel_table*> all{
        &detail::table_of<cores::differential>(),  &detail::table_of<cores::gated>(),
        &detail::table_of<cores::merged>(),        &detail::table_of<cores::cache_first>(),
        &detail::table_of<cores::either_longer>(), &detail::table_of<cores::shared_and_own>()};
    return all;
}

}  // namespace

TEST_CASE("several softmaxes keep nothing of the size queries x keys", "[cores]") {
    constexpr std::int64_t some = 1024, times = 16;
    for (const kernel_table* table : tables()) {
        INFO(table->variant);
        const explanation few = explained(*table, some, some), many = explained(*table, times * some, times * some);
        CHECK(many.scratch_bytes == few.scratch_bytes);
        CHECK(many.workspace_bytes < 2 * few.workspace_bytes);  // 256 times as many pairs
        const explanation decoded = explained(*table, 1, some), over_more = explained(*table, 1, times * some);
        CHECK(over_more.scratch_bytes == decoded.scratch_bytes);
        CHECK(over_more.workspace_bytes < 4 * decoded.workspace_bytes);  // 16 times the keys, in a few more splits
    }
}

TEST_CASE("a call of several softmaxes takes what explain says, whatever the lengths", "[cores]") {
    for (const kernel_table* table : tables())
        for (const std::int64_t keys : {40, 500, 4000})
            for (const std::int64_t queries : {std::int64_t{1}, keys}) {
                support::workload call = call_of(*table, queries, keys);
                std::size_t cost = 0;
                std::thread([&] {  // a new thread, which has kept nothing from earlier calls
                    const auto arguments = call.arguments();
                    const std::size_t before = testing::scratch_taken();
                    detail::call(*table, arguments, {.threads = 1});
                    cost = testing::scratch_taken() - before;
                })
                    .join();
                INFO(table->variant << ", " << queries << " queries, " << keys << " keys");
                const std::size_t said = detail::explain(*table, call.arguments(), {.threads = 1}).workspace_bytes;
                // A block's header and what Halide rounds up are said apart.
                CHECK(cost <= said + 8192);
                CHECK(said <= 4 * cost);  // at most, but not far from it: 3 times were seen, of one query
            }
}
