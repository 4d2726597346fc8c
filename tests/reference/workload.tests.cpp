// Random calls are calls that no kernel refuses: their indices stay inside what they index.
#include <attune/dsl.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;
inline constexpr auto k_pages = input<"k_pages", f32>(axis<"page">, key_head, axis<"slot">, depth);
inline constexpr auto v_pages = input<"v_pages", f32>(axis<"page">, key_head, axis<"slot">, value_depth);
inline constexpr auto block_table = input<"block_table", i32>(batch, axis<"block">);
inline constexpr auto slots = same(extent<2>(k_pages), extent<2>(v_pages));
inline constexpr auto page = block_table(b, kv_idx / slots);
inline constexpr auto paged = softmax(mask(q * t(keys(k_pages(page, h, kv_idx % slots, d_idx), key_length)), causal)) *
                              values(v_pages(page, h, kv_idx % slots, d_idx));
inline constexpr auto table = input<"table", f32>(axis<"place">);
inline constexpr auto moved = softmax(q * t(k) * table(kv_idx * 2 + 5)) * v;
inline constexpr auto far = softmax(q * t(k) + table(q_idx - kv_idx)) * v;
}  // namespace

TEST_CASE("what a random call uses as an index is a place") {
    workload call(ir_of<paged>, {.batches = 2, .heads = 2, .key_heads = 2, .queries = 3, .keys = 600}, 1);
    CHECK(call.view("block_table").extent(1) >= 600 / workload::usual_length);
    const auto& entries = call["block_table"].integers;
    CHECK(std::ranges::all_of(entries, [](std::int32_t page) { return page >= 0 && page < workload::usual_length; }));
    CHECK(std::ranges::max(entries) > 0);
}

TEST_CASE("an axis is as long as one position reaches, and no longer for a distance") {
    const support::shape s{.queries = 30, .keys = 40};
    CHECK(workload(ir_of<moved>, s, 1).view("table").extent(0) == 2 * 39 + 5 + 1);
    CHECK(workload(ir_of<moved>, s, 1, {}, {{"place", 100}}).view("table").extent(0) == 100);
    CHECK(workload(ir_of<far>, s, 1).view("table").extent(0) == workload::usual_length);
}
