// Kernels of the gradients of recurrences, against the reference evaluator's loop in double precision.
#include "../support/workload_values.hpp"
#include "recurrences.hpp"

#include <attune/reference.hpp>
#include <attune/runtime.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

using namespace attune;
namespace g = recurrent_gradients;

namespace {

constexpr double allowed = 2e-5;  ///< of the largest number of a gradient

struct kernels_of_formula {
    const char* name;
    const kernel_table& table;
};
#define FORMULA(name) \
    kernels_of_formula { #name, detail::table_of<g::name##_gradient>() }
const std::vector<kernels_of_formula>& formulas() {
    static const std::vector<kernels_of_formula> all{
        FORMULA(linear),   FORMULA(retention),  FORMULA(lightning),  FORMULA(mamba2),
        FORMULA(gla),      FORMULA(gla_shared), FORMULA(delta),      FORMULA(gated_delta),
        FORMULA(kda),      FORMULA(gated),      FORMULA(forgetting), FORMULA(forgetting_channels),
        FORMULA(convolved)};
    return all;
}
#undef FORMULA

support::shape of_tokens(std::int64_t tokens) {
    return {
        .batches = 2, .heads = 4, .key_heads = 2, .queries = tokens, .keys = tokens, .depth = 16, .value_depth = 24};
}

/// A call whose logarithms of decays are at most 0.
support::workload drawn(const graph_ir& graph, const support::shape& shape, unsigned seed) {
    support::workload call(graph, shape, seed, {}, {{"channel", shape.depth}, {"tap", 4}});
    for (const char* const name : {"log_decay", "log_decays"})
        if (std::ranges::find(graph.inputs, std::string_view(name), &input_declaration::name) != graph.inputs.end())
            support::scale_by(call, name, -0.5f);
    return call;
}

/// The largest error of a call's gradients, by the largest number of each.
double error_of(const support::workload& call, const reference::results& expected) {
    double worst = 0;
    for (const reference::array& want : expected.outputs) {
        double largest = 1e-3;
        for (const double x : want.values) largest = std::max(largest, std::abs(x));
        std::vector<float> got = call[want.name].reals;
        for (const std::uint16_t bits : call[want.name].halves)
            got.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
        REQUIRE(got.size() == want.values.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
            const double off = std::abs(static_cast<double>(got[i]) - want.values[i]) / largest;
            worst = std::max(worst, std::isfinite(off) ? off : HUGE_VAL);
        }
    }
    return worst;
}

}  // namespace

TEST_CASE("kernels of gradients of recurrences agree with the reference at any length", "[kernels]") {
    for (const kernels_of_formula& each : formulas())
        for (const std::int64_t tokens : {1, 15, 16, 17, 37}) {
            support::workload call = drawn(each.table.graph, of_tokens(tokens), 3);
            detail::call(each.table, call.arguments(), {});
            const double error = error_of(call, call.expected());
            INFO(each.name << ", " << tokens << " tokens: " << error);
            CHECK(error <= allowed);
        }
}

TEST_CASE("without tokens the cotangents of the first states are those of the last ones", "[kernels]") {
    const kernel_table& table = detail::table_of<g::gated_delta_gradient>();
    support::workload call = drawn(table.graph, of_tokens(0), 3);
    detail::call(table, call.arguments(), {});
    CHECK(call["dstate_in"].reals == call["dstate_out"].reals);
}

TEST_CASE("without tokens tables have gradients of 0, and first states those of last ones", "[kernels]") {
    for (const kernels_of_formula& each : formulas()) {
        support::workload call = drawn(each.table.graph, of_tokens(0), 3);
        detail::call(each.table, call.arguments(), {});
        INFO(each.name);
        CHECK(error_of(call, call.expected()) <= allowed);
    }
}

TEST_CASE("gradients of queries of bf16 are rounded to bf16", "[kernels]") {
    const kernel_table& table = detail::table_of<g::gated_delta_gradient>();
    support::workload call = drawn(table.graph, of_tokens(21), 15);
    for (const input_declaration& input : table.graph.inputs)
        if (input.element == element_type::any) call.convert(input.name, element_type::bf16);
    call.convert("dq", element_type::bf16);
    detail::call(table, call.arguments(), {});
    CHECK(error_of(call, call.expected()) < 0.004);  // half of the last place of bf16
}

TEST_CASE("gradients of recurrences have the same bits on any number of threads", "[kernels]") {
    for (const kernels_of_formula& each : formulas()) {
        support::workload call = drawn(each.table.graph, of_tokens(37), 5),
                          again = drawn(each.table.graph, of_tokens(37), 5);
        detail::call(each.table, call.arguments(), {.threads = 1});
        detail::call(each.table, again.arguments(), {.threads = 3});
        for (const output_declaration& output : each.table.graph.outputs) {
            const auto &one = call[output.name].reals, &other = again[output.name].reals;
            INFO(each.name << ", " << output.name);
            CHECK(std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0);
        }
    }
}

TEST_CASE("a log decay of -infinity leaves finite gradients", "[kernels]") {
    const auto check = [](const kernel_table& table, const char* decays) {
        support::workload call = drawn(table.graph, of_tokens(37), 7);
        support::sprinkle(call, decays, -std::numeric_limits<float>::infinity(), 5);
        detail::call(table, call.arguments(), {});
        const double error = error_of(call, call.expected());
        INFO(decays << ": " << error);
        CHECK(error <= allowed);
    };
    check(detail::table_of<g::forgetting_gradient>(), "log_decay");
    check(detail::table_of<g::forgetting_channels_gradient>(), "log_decays");
}

TEST_CASE("keys may be wider than values", "[kernels]") {
    const auto check = [](const kernel_table& table) {
        support::shape wide = of_tokens(21);
        std::swap(wide.depth, wide.value_depth);
        support::workload call = drawn(table.graph, wide, 9);
        detail::call(table, call.arguments(), {});
        const double error = error_of(call, call.expected());
        INFO(table.variant << ": " << error);
        CHECK(error <= allowed);
    };
    check(detail::table_of<g::gated_delta_gradient>());
    check(detail::table_of<g::gla_gradient>());
}

namespace {

/// Some tokens of a tensor (1, heads, tokens, ...) of f32, which are dense.
std::vector<float> some_tokens(const std::vector<float>& all, std::int64_t heads, std::int64_t tokens,
                               std::int64_t first, std::int64_t count) {
    const auto width = static_cast<std::int64_t>(all.size()) / heads / std::max<std::int64_t>(tokens, 1);
    std::vector<float> some;
    for (std::int64_t h = 0; h < heads; ++h) {
        const auto at = all.begin() + (h * tokens + first) * width;
        some.insert(some.end(), at, at + count * width);
    }
    return some;
}

}  // namespace

TEST_CASE("each packed sequence has the gradients of a call of its own, in bits", "[kernels]") {
    const kernel_table& table = detail::table_of<g::gated_delta_gradient>();
    const std::int32_t starts[] = {0, 5, 5, 25, 37};
    constexpr std::int64_t sequences = 4, extents[] = {sequences + 1};
    support::shape of_all = of_tokens(37), of_states = of_tokens(1);
    of_all.batches = 1, of_states.batches = sequences;
    support::workload all = drawn(table.graph, of_all, 11), states = drawn(table.graph, of_states, 12);
    const auto is_state = [](std::string_view name) { return name.find("state") != name.npos; };
    std::vector<detail::named_argument> arguments = all.arguments();
    for (detail::named_argument& each : arguments)
        if (is_state(each.name)) each.view = states.view(each.name);
    arguments.emplace_back().name = "cu_seqlens_q", arguments.back().view = tensor(starts, extents);
    detail::call(table, arguments, {});
    for (std::int64_t s = 0; s < sequences; ++s) {
        const std::int64_t first = starts[s], count = starts[s + 1] - first;
        support::shape of_one = of_tokens(count);
        of_one.batches = 1;
        support::workload one = drawn(table.graph, of_one, 13);
        const auto part = [&](std::string_view name) {
            if (!is_state(name)) {
                const std::int64_t heads = all.view(name).extent(1);
                return some_tokens(all[name].reals, heads, 37, first, count);
            }
            const auto& of = states[name].reals;
            const auto size = static_cast<std::ptrdiff_t>(of.size()) / sequences;
            return std::vector<float>(of.begin() + s * size, of.begin() + (s + 1) * size);
        };
        for (const input_declaration& input : table.graph.inputs) one.put(input.name, part(input.name));
        detail::call(table, one.arguments(), {});
        for (const output_declaration& output : table.graph.outputs) {
            INFO(output.name << " of sequence " << s);
            CHECK(one[output.name].reals == part(output.name));
        }
    }
}

TEST_CASE("a gradient that is a sum over the batch is refused in a packed call", "[kernels]") {
    const kernel_table& table = detail::table_of<g::mamba2_gradient>();
    support::shape one = of_tokens(5);
    one.batches = 1;
    support::workload call = drawn(table.graph, one, 3);
    const std::int32_t starts[] = {0, 5};
    const std::int64_t extents[] = {2};
    std::vector<detail::named_argument> arguments = call.arguments();
    arguments.emplace_back().name = "cu_seqlens_q", arguments.back().view = tensor(starts, extents);
    CHECK_THROWS_MATCHES(
        detail::call(table, arguments, {}), error,
        Catch::Matchers::MessageMatches(Catch::Matchers::ContainsSubstring("which sums over the batch")));
}
