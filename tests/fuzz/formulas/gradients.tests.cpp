// Gradients of random formulas are what differences of their forward passes say, in double precision: the rules, and
// not only kernels beside rules.
#include "../../gradients/differences.hpp"
#include "formula_inputs.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

using namespace attune;

namespace {

/// A case whose forward pass takes a moment, and whose reals are f32; nothing of those that have no gradient.
std::optional<fuzz::formula_case> small_gradient(unsigned seed) {
    fuzz::formula_case it = fuzz::drawn_case(seed);
    if (it.kernel_of.made != fuzz::pass::gradient) return {};
    it.types = "f32", it.cu_seqlens_q.clear(), it.kv_lengths.clear();
    it.relaid = it.broadcast = it.hidden_nan = false;
    it.shape.batches = std::min<std::int64_t>(it.shape.batches, 2);
    it.shape.heads = it.shape.key_heads = std::min<std::int64_t>(it.shape.key_heads, 2);
    it.shape.queries = std::min<std::int64_t>(it.shape.queries, 5);
    it.shape.keys = std::min<std::int64_t>(it.shape.keys, 7);
    it.depth = std::min(it.depth, 4), it.value_depth = std::min(it.value_depth, 3);
    it.shape.depth = it.depth, it.shape.value_depth = it.value_depth;
    const auto is_wide = [](const input_declaration& d) {
        return d.is_scalar || (d.element != element_type::bf16 && d.element != element_type::f16);
    };
    if (!fuzz::settle(it) || !std::ranges::all_of(it.graph.inputs, is_wide)) return {};
    return it;
}

}  // namespace

TEST_CASE("gradients of random formulas are what differences of the forward pass say", "[differences]") {
    constexpr int wanted = 2000;
    int graphs = 0, compared = 0, left_out = 0;
    for (unsigned seed = 1; graphs < wanted; ++seed) {
        const auto it = small_gradient(seed);
        if (!it) continue;
        INFO("seed " << seed << ", " << it->text());
        const testing::drawn_graph made = it->compiled();
        const graph_ir forward = it->graph.view(), gradient = made.view();
        support::workload call = fuzz::drawn_workload(*it, generators::element_types_from("f32"));
        constexpr double small_step = 0x1p-10;  // fewer kinks lie as near
        const auto all = testing::derivatives_along(forward, gradient, call, seed, small_step,
                                                    {.depth = it->depth, .value_depth = it->value_depth});
        for (const testing::differentiated& d : all) {
            INFO(d.tensor << ": " << d.by_gradient << " by the gradient, " << d.by_differences << " by differences");
            CHECK(std::abs(d.by_gradient - d.by_differences) <= 2e-5 * (d.size + 1));
        }
        ++graphs, compared += static_cast<int>(all.size());
        left_out += static_cast<int>(gradient.outputs.size() - all.size());
    }
    std::printf("%d graphs, %d derivatives compared, %d left out beside kinks\n", graphs, compared, left_out);
    CHECK(compared > graphs);
    CHECK(left_out < compared / 100);
}
