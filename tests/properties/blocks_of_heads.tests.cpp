// Groups of heads with masks of their own, in one call.
#include "blocks_lab.hpp"

#include <attune/dsl.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace of_heads {
using namespace attune::dsl;
constexpr auto under(expression auto condition) { return softmax(mask(q * t(k), condition)) * v; }

inline constexpr auto local = under(causal && kv_idx > q_idx - 256);
inline constexpr auto global = under(causal);
inline constexpr auto local_and_global = under(causal && (h >= 2 || kv_idx > q_idx - 256));
inline constexpr auto is_local = input<"is_local", boolean>(head);
inline constexpr auto listed = under(causal && (!is_local(h) || kv_idx > q_idx - 256));
}  // namespace of_heads

namespace attune::testing {
namespace {

std::vector<std::uint8_t> blocks_of(const graph_ir& graph, int heads) {
    lab_inputs in;
    in.heads = heads, in.queries = in.keys = 4096;
    in.tables["is_local"] = {{heads}, {1, 1, 0, 0}};
    return decide_blocks(graph, usual_schedule(dsl::ir_of<of_heads::global>), in);
}

}  // namespace

TEST_CASE("each group of heads skips the blocks that its own mask hides, as a call of its own would") {
    const auto local = blocks_of(dsl::ir_of<of_heads::local>, 2), global = blocks_of(dsl::ir_of<of_heads::global>, 2);
    REQUIRE(local.size() == global.size());
    CHECK(std::ranges::count(local, 0) > 2 * std::ranges::count(global, 0) * 4 / 5);
    std::vector<std::uint8_t> separately = local;
    separately.insert(separately.end(), global.begin(), global.end());
    CHECK(blocks_of(dsl::ir_of<of_heads::local_and_global>, 4) == separately);
    CHECK(blocks_of(dsl::ir_of<of_heads::listed>, 4) == separately);
}

}  // namespace attune::testing
