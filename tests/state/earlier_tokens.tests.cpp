// No token reaches an earlier one, whatever it holds: NaN least of all.
#include "drawn_call.hpp"
#include "kernels.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace attune;
using attune::testing::drawn_call;
using attune::testing::drawn_tensor;

namespace {

namespace of = state_kernels;

constexpr std::int64_t depth = 16, tokens = 37, spoilt = 21;  // in a chunk's midst

const std::map<std::string, const kernel_table*>& tables() {
    static const std::map<std::string, const kernel_table*> all{
        {"gated_on", &detail::table_of<of::gated_on>()},   {"delta_net", &detail::table_of<of::delta_net>()},
        {"kda_on", &detail::table_of<of::kda_on>()},       {"gla_on", &detail::table_of<of::gla_on>()},
        {"mamba2_on", &detail::table_of<of::mamba2_on>()}, {"rwkv7_on", &detail::table_of<of::rwkv7_on>()},
        {"rwkv6_on", &detail::table_of<of::rwkv6_on>()}};
    return all;
}

}  // namespace

TEST_CASE("what is no number in one token reaches no earlier one", "[state]") {
    for (const auto& [name, table] : tables()) {
        drawn_call call(*table, tokens, depth, depth);
        call.run();
        const drawn_tensor expected = call.at("out");
        REQUIRE(std::ranges::none_of(expected.floats, [](float x) { return std::isnan(x); }));
        int spoiled = 0;
        for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
            for (auto& [input, each] : call.tensors) {
                if (input == "out" || each.query_axis == each.extents.size()) continue;
                INFO(name << ", " << input << " " << bad);
                const drawn_tensor before = each;
                each.of_token(spoilt, [&](float& x) { x = bad; });
                call.run();
                each = before;
                for (std::int64_t h = 0; h < call.heads; ++h) {
                    const auto first = static_cast<std::ptrdiff_t>(h * tokens * depth);
                    CHECK(std::memcmp(expected.floats.data() + first, call.at("out").floats.data() + first,
                                      spoilt * depth * sizeof(float)) == 0);
                }
                bool reached = false;  // its own token
                call.at("out").of_token(spoilt, [&](float x) { reached = reached || !std::isfinite(x); });
                spoiled += reached;
            }
        CHECK(spoiled >= 4);  // else nothing was tested
    }
}
