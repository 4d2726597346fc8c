#include "layers.hpp"
#include "differences.hpp"
#include "gradient_errors.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

using namespace attune;
using namespace attune::testing;
using support::shape;
namespace l = gradients_of_layers;

namespace {

shape of(std::int64_t length, std::int64_t heads = 2) {
    return {.batches = 2,
            .heads = heads,
            .key_heads = heads,
            .queries = length,
            .keys = length,
            .depth = 24,
            .value_depth = 24};
}

}  // namespace

TEST_CASE("gradients of layers agree with the reference at any shape", "[kernels]") {
    for (const std::int64_t length : {1, 5, 49}) {
        INFO(length);
        CHECK(error_of<l::whole, l::whole_gradient>(of(length)) <= allowed);
    }
    CHECK(error_of<l::whole, l::whole_gradient>(of(20, 3), {7, 0}) <= allowed);
    for (const std::int64_t keys : {1, 70}) {
        shape s = of(50, 4);
        s.key_heads = 2, s.keys = keys;
        INFO(s.text());
        CHECK(error_of<l::shared, l::shared_gradient>(s) <= allowed);
        CHECK(error_of<l::shared, l::shared_gradient>(
                  s, {static_cast<std::int32_t>(keys), static_cast<std::int32_t>(keys) / 2}) <= allowed);
    }
    CHECK(error_of<l::residual_layer, l::residual_gradient>(of(67)) <= allowed);
}

TEST_CASE("gradients of functions of projections agree with the reference", "[kernels]") {
    for (const std::int64_t length : {1, 49}) {
        INFO(length);
        shape s = of(length);
        s.batches = 1;
        CHECK(error_of<l::bent, l::bent_gradient>(s) <= allowed);
    }
    CHECK(error_of<l::bent, l::bent_gradient>(of(10, 3), {7, 0}) <= allowed);
    for (const std::int64_t keys : {1, 50}) {
        shape s = of(20, 4);
        s.key_heads = 2, s.keys = keys, s.value_depth = 40;
        INFO(s.text());
        CHECK(error_of<l::grouped, l::grouped_gradient>(s) <= allowed);
        CHECK(error_of<l::grouped, l::grouped_gradient>(
                  s, {static_cast<std::int32_t>(keys), static_cast<std::int32_t>(keys) / 2}) <= allowed);
    }
}

TEST_CASE("gradients of layers are what differences of the forward pass say", "[differences]") {
    struct formula {
        const char* name;
        graph_ir forward, gradient;
    };
    for (const formula& each :
         {formula{"layer", dsl::ir_of<l::layer>, dsl::ir_of<l::layer_gradient>},
          {"whole", dsl::ir_of<l::whole>, dsl::ir_of<l::whole_gradient>},
          {"bent", dsl::ir_of<l::bent>, dsl::ir_of<l::bent_gradient>},
          {"normed", dsl::ir_of<l::normed>, dsl::ir_of<l::normed_gradient>},
          {"normed_tensors", dsl::ir_of<l::normed_tensors>, dsl::ir_of<l::normed_tensors_gradient>},
          {"centred", dsl::ir_of<l::centred>, dsl::ir_of<l::centred_gradient>},
          {"shared", dsl::ir_of<l::shared>, dsl::ir_of<l::shared_gradient>},
          {"grouped", dsl::ir_of<l::grouped>, dsl::ir_of<l::grouped_gradient>},
          {"residual", dsl::ir_of<l::residual_layer>, dsl::ir_of<l::residual_gradient>}})
        for (const unsigned seed : {1u, 2u}) {
            shape s{.batches = 2, .heads = 2, .key_heads = 2, .queries = 7, .keys = 7, .depth = 4, .value_depth = 4};
            if (each.name == std::string_view("grouped") || each.name == std::string_view("centred"))
                s.key_heads = 1, s.keys = 9, s.value_depth = 6;
            support::workload call(each.forward, s, seed, {{"heads", 2}},
                                   {{"model", 5},
                                    {"in", 5},
                                    {"out", 3 * s.heads * s.depth},
                                    {"of_a_head", s.depth},
                                    {"merged", s.heads * s.value_depth},
                                    {"pair", s.depth / 2}});
            const auto all = derivatives_along(each.forward, each.gradient, call, seed);
            INFO(each.name << ", seed " << seed);
            CHECK(all.size() == each.gradient.outputs.size());
            for (const differentiated& d : all) {
                INFO(d.tensor << ": " << d.by_gradient << " by the gradient, " << d.by_differences
                              << " by differences");
                CHECK(std::abs(d.by_gradient - d.by_differences) <= 2e-5 * (d.size + 1));
            }
        }
}

TEST_CASE("bits of gradients of projections depend neither on threads nor on the run", "[kernels]") {
    gradient_call call(dsl::ir_of<l::whole>, dsl::ir_of<l::whole_gradient>, of(30), 3);
    call.run(detail::table_of<l::whole_gradient>(), 1);
    const auto first = call.results;
    for (const int threads : {1, 2, 5}) {
        call.run(detail::table_of<l::whole_gradient>(), threads);
        for (std::size_t i = 0; i < first.size(); ++i) {
            INFO(first[i].name << ", " << threads << " threads");
            CHECK(std::memcmp(first[i].reals.data(), call.results[i].reals.data(), first[i].size * sizeof(float)) == 0);
        }
    }
}

TEST_CASE("what lies where no pair is seen reaches no gradient of a projection", "[kernels]") {
    const shape s{.batches = 2, .heads = 2, .key_heads = 2, .queries = 20, .keys = 30, .depth = 24, .value_depth = 24};
    gradient_call call(dsl::ir_of<l::shared>, dsl::ir_of<l::shared_gradient>, s, 7, {11, 30});  // NaN beyond
    call.run(detail::table_of<l::shared_gradient>(), 2);
    CHECK(call.error() <= allowed);
}

TEST_CASE("a cotangent of other channels than the layer's is refused", "[kernels]") {
    gradient_call call(dsl::ir_of<l::residual_layer>, dsl::ir_of<l::residual_gradient>, of(5), 3);
    std::vector<float> narrow(std::size_t{2} * 5 * 40);
    const std::int64_t extents[] = {2, 5, 40};
    for (auto& argument : call.arguments)
        if (argument.name == "dout") argument.view = tensor(narrow.data(), extents);
    CHECK_THROWS_MATCHES(detail::call(detail::table_of<l::residual_gradient>(), call.arguments, {}), error,
                         Catch::Matchers::MessageMatches(Catch::Matchers::ContainsSubstring(
                             "the same number in extent<2>(dout) and heads * value_depth")));
}

TEST_CASE("a layer is trained by its gradients", "[kernels]") {
    using namespace attune::dsl;
    constexpr std::int64_t batches = 2, length = 21, width = 20, heads_of_layer = 2, channels = heads_of_layer * 24;
    constexpr auto proj_weight = layers::weight<"proj_weight">;
    constexpr auto proj_bias = layers::bias<"proj_bias">;
    constexpr output_name<"attended"> attended;
    std::mt19937 random(5);
    const auto drawn = [&](std::int64_t count, float scale) {
        std::normal_distribution<float> normal;
        std::vector<float> all(static_cast<std::size_t>(count));
        for (float& each : all) each = scale * normal(random);
        return all;
    };
    const std::int64_t of_x[] = {batches, length, width}, of_weight[] = {3 * channels, width},
                       of_bias[] = {3 * channels}, of_out_weight[] = {width, channels}, of_out_bias[] = {width},
                       of_heads[] = {batches, heads_of_layer, length, channels / heads_of_layer},
                       of_lse[] = {batches, heads_of_layer, length};
    std::vector<float> from = drawn(batches * length * width, 1), weight = drawn(3 * channels * width, 0.3f),
                       bias = drawn(3 * channels, 0.3f), last_weight = drawn(width * channels, 0.3f),
                       last_bias = drawn(width, 0.3f), made = from, heads_made = drawn(batches * length * channels, 0),
                       sums = drawn(batches * heads_of_layer * length, 0),
                       wanted = drawn(batches * length * width, 0.3f), dmade = made, dfrom = from, dweight = weight,
                       dbias = bias, dlast_weight = last_weight, dlast_bias = last_bias;
    const auto step = [&](std::vector<float>& numbers, const std::vector<float>& slopes) {
        for (std::size_t n = 0; n < numbers.size(); ++n) numbers[n] -= 0.0005f * slopes[n];
    };
    const auto loss = [&] {
        attune::run<l::whole>(layers::x = tensor(from.data(), of_x), proj_weight = tensor(weight.data(), of_weight),
                              proj_bias = tensor(bias.data(), of_bias), layers::number_of_heads = heads_of_layer,
                              l::out_weight = tensor(last_weight.data(), of_out_weight),
                              l::out_bias = tensor(last_bias.data(), of_out_bias), out = tensor(made.data(), of_x),
                              attended = tensor(heads_made.data(), of_heads), lse = tensor(sums.data(), of_lse));
        double all = 0;
        for (std::size_t n = 0; n < made.size(); ++n)
            dmade[n] = made[n] - wanted[n], all += 0.5 * static_cast<double>(dmade[n]) * static_cast<double>(dmade[n]);
        return all;
    };
    double before = loss();
    const double first = before;
    for (int steps = 0; steps < 150; ++steps) {
        attune::run<l::whole_gradient>(
            layers::x = tensor(from.data(), of_x), proj_weight = tensor(weight.data(), of_weight),
            proj_bias = tensor(bias.data(), of_bias), layers::number_of_heads = heads_of_layer,
            l::out_weight = tensor(last_weight.data(), of_out_weight),
            l::out_bias = tensor(last_bias.data(), of_out_bias), attended = tensor(heads_made.data(), of_heads),
            lse = tensor(sums.data(), of_lse), d(out) = tensor(dmade.data(), of_x),
            d(layers::x) = tensor(dfrom.data(), of_x), d(proj_weight) = tensor(dweight.data(), of_weight),
            d(proj_bias) = tensor(dbias.data(), of_bias), d(l::out_weight) = tensor(dlast_weight.data(), of_out_weight),
            d(l::out_bias) = tensor(dlast_bias.data(), of_out_bias));
        step(weight, dweight), step(bias, dbias), step(from, dfrom);
        step(last_weight, dlast_weight), step(last_bias, dlast_bias);
        const double now = loss();
        CHECK(now < before);
        before = now;
    }
    INFO(first << " to " << before);
    CHECK(before < first / 2);
}
