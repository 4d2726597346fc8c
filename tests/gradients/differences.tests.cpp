#include "differences.hpp"
#include "functions.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdio>
#include <string_view>

using namespace attune;
using namespace attune::testing;
namespace g = golden_gradients;

namespace {

struct formula {
    const char* name;
    graph_ir forward, gradient;
    /// Or poles, such as renormalised's where a row's importances cancel, or a power of a slope near 0: some
    /// derivatives may be left out.
    bool has_kinks = false;
};

#define FORMULA(name, ...) \
    formula { #name, dsl::ir_of<g::name>, dsl::ir_of<g::name##_gradient>, ##__VA_ARGS__ }
const formula formulas[] = {FORMULA(full),
                            FORMULA(alibi),
                            FORMULA(temperature),
                            FORMULA(bias_batch_heads),
                            FORMULA(bias_heads),
                            FORMULA(bias_shared),
                            FORMULA(bias_keys),
                            FORMULA(bias_queries),
                            FORMULA(relative_table),
                            FORMULA(softcapped),
                            FORMULA(squared),
                            FORMULA(silu),
                            FORMULA(where_score, true),
                            FORMULA(relu_score, true),
                            FORMULA(clamped, true),
                            FORMULA(mla_rope),
                            FORMULA(cosine, true),
                            FORMULA(key_scale),
                            FORMULA(sink),
                            FORMULA(sink_two_lse),
                            FORMULA(dropout),
                            FORMULA(relu_normalised, true),
                            FORMULA(gate),
                            FORMULA(weight_factor),
                            FORMULA(renormalised, true),
                            FORMULA(combined),
                            FORMULA(circular),
                            FORMULA(hyperbolic),
                            FORMULA(powers, true),
                            FORMULA(of_two),
                            FORMULA(steps),
                            FORMULA(masked_inside),
                            FORMULA(masked_factor),
                            FORMULA(masked_weights),
                            FORMULA(masked_bias),
                            FORMULA(squared_values, true),
                            FORMULA(masked_rows),
                            FORMULA(additive),
                            FORMULA(by_index),
                            FORMULA(functions)};
#undef FORMULA

}  // namespace

TEST_CASE("sums of rows, and of what is read at a channel, are not looked at for -infinity", "[differences]") {
    const graph_ir rows = dsl::ir_of<g::rotated_norms_gradient>, factors = dsl::ir_of<g::masked_factor_gradient>;
    const auto looks = [](const instruction& node) { return node.op == operation::not_equal; };
    CHECK(std::ranges::none_of(rows.nodes, looks));
    CHECK(std::ranges::any_of(factors.nodes, looks));
}

TEST_CASE("gradients are what differences of the forward pass say", "[differences]") {
    int compared = 0, left_out = 0;
    for (const formula& each : formulas)
        for (const unsigned seed : {1u, 2u}) {
            const support::shape shape{
                .batches = 2, .heads = 4, .key_heads = 2, .queries = 7, .keys = 9, .depth = 4, .value_depth = 6};
            support::workload call(each.forward, shape, seed,
                                   {{"scale", 0.5},
                                    {"w", 4},
                                    {"cap", 3},
                                    {"p", 0.25},
                                    {"c", 0.5},
                                    {"R", 8},
                                    {"m", 3},
                                    {"lo", -0.75},
                                    {"hi", 1.25},
                                    {"limit", 0.75},
                                    {"least", 0.5},
                                    {"offset", 2},
                                    {"g", 2},
                                    {"N", 9}},
                                   {{"rope", 4}, {"distance", 17}, {"place", 5}, {"slot", 11}});
            if (each.name == std::string_view("by_index")) call.draw("chosen", 0, 10);  // slots, in any order
            const auto all = derivatives_along(each.forward, each.gradient, call, seed);
            INFO(each.name << ", seed " << seed);
            CHECK((each.has_kinks || all.size() == each.gradient.outputs.size()));
            for (const differentiated& d : all) {
                INFO(each.name << ", " << d.tensor << ": " << d.by_gradient << " by the gradient, " << d.by_differences
                               << " by differences, seed " << seed);
                CHECK(std::abs(d.by_gradient - d.by_differences) <= 2e-5 * (d.size + 1));
                ++compared;
            }
            left_out += static_cast<int>(each.gradient.outputs.size());
        }
    left_out -= compared;
    std::printf("%d derivatives compared, %d left out beside kinks\n", compared, left_out);
    CHECK(left_out < compared / 5);
}
