// Gradients of recurrences by the reference evaluator: against differences of its forward pass, and against PyTorch.
#include "recurrences.hpp"
#include "../support/safetensors.hpp"
#include "differences.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string_view>

using namespace attune;
using namespace attune::testing;
namespace g = recurrent_gradients;

namespace {

struct formula {
    const char* name;
    graph_ir forward, gradient;
};
#define FORMULA(name) \
    formula { #name, dsl::ir_of<g::name>, dsl::ir_of<g::name##_gradient> }
const std::vector<formula>& formulas() {
    static const std::vector<formula> all{
        FORMULA(linear),     FORMULA(retention), FORMULA(lightning),   FORMULA(mamba2), FORMULA(gla),
        FORMULA(gla_shared), FORMULA(delta),     FORMULA(gated_delta), FORMULA(kda),    FORMULA(gated)};
    return all;
}
#undef FORMULA

}  // namespace

TEST_CASE("gradients of recurrences are what differences of the forward pass say", "[recurrences]") {
    int compared = 0;
    for (const formula& each : formulas())
        for (const unsigned seed : {1u, 2u}) {
            const support::shape shape{
                .batches = 2, .heads = 4, .key_heads = 2, .queries = 9, .keys = 9, .depth = 4, .value_depth = 6};
            support::workload call(each.forward, shape, seed);
            const auto all = derivatives_along(each.forward, each.gradient, call, seed);
            INFO(each.name << ", seed " << seed);
            CHECK(all.size() == each.gradient.outputs.size());
            for (const differentiated& d : all) {
                INFO(each.name << ", " << d.tensor << ": " << d.by_gradient << " by the gradient, " << d.by_differences
                               << " by differences, seed " << seed);
                CHECK(std::abs(d.by_gradient - d.by_differences) <= 2e-5 * (d.size + 1));
                ++compared;
            }
        }
    std::printf("%d derivatives compared\n", compared);
}

TEST_CASE("the last states of no token are the first ones, and so are their cotangents", "[recurrences]") {
    const graph_ir of = dsl::ir_of<g::gated_delta_gradient>;
    const support::shape none{
        .batches = 2, .heads = 2, .key_heads = 2, .queries = 0, .keys = 0, .depth = 4, .value_depth = 6};
    const support::workload call(of, none, 3);
    const auto& given = call["dstate_out"].reals;
    bool found = false;
    for (const reference::array& got : call.expected().outputs) {
        if (got.name != "dstate_in") continue;
        found = true;
        REQUIRE(got.values.size() == given.size());
        CHECK(std::equal(got.values.begin(), got.values.end(), given.begin()));
    }
    CHECK(found);
}

TEST_CASE("gradients of recurrences are what PyTorch's autograd of the plain loop says", "[recurrences]") {
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(ATTUNE_STATE_GRADIENTS)) {
        support::tensor_file file = support::read_safetensors(entry.path());
        const auto of = std::ranges::find_if(formulas(), [&](const formula& each) {
            return entry.path().stem().string() == std::string("state_") + each.name;
        });
        INFO(entry.path().string());
        REQUIRE(of != formulas().end());
        std::vector<reference::argument> all;
        for (const input_declaration& d : of->gradient.inputs) {
            support::file_tensor& t = *std::ranges::find(file.tensors, d.name, &support::file_tensor::name);
            all.push_back({d.name, tensor(t.as<float>(), std::span<const std::int64_t>(t.shape))});
        }
        const reference::results made = reference::evaluate(of->gradient, all, {.depth = 16, .value_depth = 24});
        for (const reference::array& got : made.outputs) {
            const support::file_tensor& want = file[got.name];
            REQUIRE(got.shape == want.shape);
            double largest = 1;
            for (std::size_t at = 0; at < got.values.size(); ++at)
                largest = std::max(largest, std::abs(static_cast<double>(want.as<float>()[at])));
            int wrong = 0;
            for (std::size_t at = 0; at < got.values.size(); ++at)
                wrong += !(std::abs(got.values[at] - want.as<float>()[at]) <= 1e-6 * largest);
            INFO(got.name << ", beside " << largest);
            CHECK(wrong == 0);
        }
        ++files;
    }
    CHECK(files == 5);
}
