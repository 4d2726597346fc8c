// No token reaches an earlier one, whatever it holds: NaN least of all.
#include "kernels.hpp"

#include <attune/runtime.hpp>
#include <attune/runtime/detail/call.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace attune;

namespace {

namespace of = state_kernels;

constexpr std::int64_t batches = 1, heads = 2, depth = 16, tokens = 37, spoilt = 21;  // in a chunk's midst

/// All tensors of a call, dense, by name.
struct whole_call {
    struct dense {
        std::vector<std::int64_t> extents;
        std::vector<float> numbers;
        std::size_t query_axis;  ///< as many as there are axes: none
        tensor view() { return tensor(numbers.data(), extents); }

        /// Calls f with each number of one token.
        template <class F> void of_token(std::int64_t token, F f) {
            std::int64_t inner = 1;
            for (std::size_t axis = query_axis + 1; axis < extents.size(); ++axis) inner *= extents[axis];
            for (std::size_t n = 0; n < numbers.size(); ++n)
                if (static_cast<std::int64_t>(n) / inner % tokens == token) f(numbers[n]);
        }
    };
    const kernel_table& table;
    std::map<std::string, dense> tensors;

    explicit whole_call(const kernel_table& kernels) : table(kernels) {
        std::mt19937 random(1);
        for (const input_declaration& input : table.graph.inputs) {
            if (input.is_scalar) continue;
            std::vector<axis_kind> axes;
            for (int a = 0; a < input.rank; ++a) axes.push_back(input.axes[static_cast<std::size_t>(a)].kind);
            dense& made = add(std::string(input.name), axes);
            const bool falls = input.name.ends_with("decay");
            std::uniform_real_distribution<float> draw(falls ? -0.5f : -1.0f, falls ? 0.0f : 1.0f);
            for (float& x : made.numbers) x = draw(random);
        }
        add("out", {axis_kind::batch, axis_kind::head, axis_kind::query, axis_kind::depth});
        add("state_out", {axis_kind::batch, axis_kind::head, axis_kind::depth, axis_kind::value_depth});
    }

    dense& add(const std::string& name, const std::vector<axis_kind>& axes) {
        dense& made = tensors[name];
        made.query_axis = axes.size();
        std::int64_t count = 1;
        for (std::size_t a = 0; a < axes.size(); ++a) {
            const axis_kind is = axes[a];
            if (is == axis_kind::query) made.query_axis = a;
            made.extents.push_back(is == axis_kind::batch                               ? batches
                                   : is == axis_kind::head || is == axis_kind::key_head ? heads
                                   : is == axis_kind::query                             ? tokens
                                                                                        : depth);
            count *= made.extents.back();
        }
        made.numbers.resize(static_cast<std::size_t>(count));
        return made;
    }

    void run() {
        std::vector<detail::named_argument> arguments;
        for (auto& [name, each] : tensors) arguments.push_back({.name = name, .view = each.view()});
        for (const input_declaration& input : table.graph.inputs)
            if (input.is_scalar)
                arguments.push_back(
                    {.name = input.name, .is = detail::named_argument::form::real, .view = {}, .real = 0.5});
        detail::call(table, arguments, {});
    }
};

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
        whole_call call(*table);
        call.run();
        const whole_call::dense expected = call.tensors.at("out");
        REQUIRE(std::ranges::none_of(expected.numbers, [](float x) { return std::isnan(x); }));
        int spoiled = 0;
        for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
            for (auto& [input, each] : call.tensors) {
                if (input == "out" || each.query_axis == each.extents.size()) continue;
                INFO(name << ", " << input << " " << bad);
                const whole_call::dense before = each;
                each.of_token(spoilt, [&](float& x) { x = bad; });
                call.run();
                each = before;
                for (std::int64_t h = 0; h < heads; ++h) {
                    const auto first = static_cast<std::ptrdiff_t>(h * tokens * depth);
                    CHECK(std::memcmp(expected.numbers.data() + first, call.tensors.at("out").numbers.data() + first,
                                      spoilt * depth * sizeof(float)) == 0);
                }
                bool reached = false;  // its own token
                call.tensors.at("out").of_token(spoilt, [&](float x) { reached = reached || !std::isfinite(x); });
                spoiled += reached;
            }
        CHECK(spoiled >= 4);  // else nothing was tested
    }
}
