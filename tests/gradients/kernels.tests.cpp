#include "functions.hpp"
#include "kernel_cases.hpp"

#include <attune/runtime.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

using namespace attune;
using namespace attune::testing;
using support::shape;
using support::workload;
namespace g = golden_gradients;

namespace {

/// A call of a gradient, of what the reference evaluator's forward pass leaves.
struct gradient_call {
    gradient_call(const graph_ir& forward, const graph_ir& of, const shape& s, unsigned seed,
                  std::vector<std::int32_t> lengths = {})
        : graph(of),
          inputs(forward, s, seed,
                 {{"scale", 1 / std::sqrt(static_cast<double>(s.depth))}, {"w", 20}, {"cap", 3}, {"p", 0.25}}) {
        if (std::ranges::any_of(forward.inputs, [](const auto& d) { return d.name == "slopes"; }))
            inputs.scale_by("slopes", 0.05f);
        if (!lengths.empty()) inputs.set_lengths(std::move(lengths));
        const reference::results made = inputs.expected();
        std::mt19937 random(seed);
        std::normal_distribution<float> normal;
        for (const input_declaration& d : of.inputs) {
            if (std::ranges::any_of(forward.inputs, [&](const auto& other) { return other.name == d.name; })) continue;
            const auto saved = std::ranges::find(made.outputs, std::string(d.name), &reference::array::name);
            std::vector<std::int64_t> extents{s.batches, s.heads, s.queries};
            if (d.rank == 4) extents.push_back(s.value_depth);
            rows& r = more.emplace_back(rows{d.name, {}, extents});
            std::int64_t size = 1;
            for (const std::int64_t extent : extents) size *= extent;
            for (std::int64_t i = 0; i < size; ++i)
                r.elements.push_back(saved == made.outputs.end()
                                         ? normal(random)
                                         : static_cast<float>(saved->values[static_cast<std::size_t>(i)]));
        }
        arguments = inputs.arguments(), by_reference = inputs.reference_arguments();
        std::erase_if(arguments, [&](const auto& a) { return is_output_of(forward, a.name); });
        std::erase_if(by_reference, [&](const auto& a) { return is_output_of(forward, a.name); });
        for (rows& r : more) {
            const tensor view(r.elements.data(), std::span<const std::int64_t>(r.extents));
            arguments.push_back({.name = r.name, .view = view}), by_reference.push_back({r.name, view});
        }
        expected = reference::evaluate(of, by_reference, {.depth = s.depth, .value_depth = s.value_depth});
        for (const reference::array& a : expected.outputs) results.emplace_back(a.values.size(), std::nanf(""));
        for (std::size_t i = 0; i < results.size(); ++i)
            arguments.push_back(
                {.name = of.outputs[i].name,
                 .view = tensor(results[i].data(), std::span<const std::int64_t>(expected.outputs[i].shape))});
    }
    gradient_call(const gradient_call&) = delete;

    static bool is_output_of(const graph_ir& graph, std::string_view name) {
        return std::ranges::any_of(graph.outputs, [&](const auto& o) { return o.name == name; });
    }

    void run(const kernel_table& kernels, int threads) {
        for (auto& each : results) std::ranges::fill(each, std::nanf(""));
        detail::call(kernels, arguments, {.threads = threads});
    }
    /// The largest error, by the largest number of the gradient.
    double error() const {
        double worst = 0;
        for (std::size_t i = 0; i < results.size(); ++i) {
            double largest = 1, off = 0;
            for (std::size_t j = 0; j < results[i].size(); ++j) {
                const double want = expected.outputs[i].values[j], got = static_cast<double>(results[i][j]);
                largest = std::max(largest, std::abs(want)),
                off = std::max(off, std::isnan(got) ? HUGE_VAL : std::abs(got - want));
            }
            worst = std::max(worst, off / largest);
        }
        return worst;
    }

    struct rows {
        std::string_view name;
        std::vector<float> elements;
        std::vector<std::int64_t> extents;
    };
    graph_ir graph;
    workload inputs;
    std::vector<rows> more;
    std::vector<detail::named_argument> arguments;
    std::vector<reference::argument> by_reference;
    reference::results expected;
    std::vector<std::vector<float>> results;
};

template <const auto& Forward, const auto& Gradient>
double error_of(const shape& s, std::vector<std::int32_t> lengths = {}) {
    gradient_call call(dsl::ir_of<Forward>, dsl::ir_of<Gradient>, s, 7, std::move(lengths));
    call.run(detail::table_of<Gradient>(), 2);
    return call.error();
}

constexpr double allowed = 1e-5;

}  // namespace

TEST_CASE("kernels of gradients agree with the golden files", "[kernels]") {
    const auto recipes = gradient_kernel_cases();
    const char* given = std::getenv("ATTUNE_GOLDEN_GRAD");
    int files = 0;
    for (const auto& path : files_in(given != nullptr ? given : ATTUNE_GOLDEN_FILES, filter())) {
        const auto found = std::ranges::find(recipes, stem_of(path), &recipe::stem);
        if (found == recipes.end()) continue;
        golden_run run(path, *found);
        CHECK(run.with_kernels() == 1);
        std::printf("%-28s", path.stem().string().c_str());
        for (const auto& c : run.compare()) {
            std::printf("  %s %.1e (%.0e)", c.output.c_str(), c.error, c.tolerance);
            INFO(path.filename().string()
                 << ": " << c.output << ", error " << c.error << ", tolerance " << c.tolerance);
            CHECK(c.passes());
        }
        std::printf("\n");
        ++files;
    }
    std::printf("%d golden files by kernels of gradients\n", files);
    CHECK(files > 0);
}

TEST_CASE("kernels of gradients agree with the reference at any shape", "[kernels]") {
    const shape usual{.batches = 2, .heads = 4, .key_heads = 2, .queries = 67, .keys = 101};
    for (const std::int64_t queries : {1, 48, 49, 97, 200}) {
        shape s = usual;
        s.queries = queries, s.keys = queries;
        INFO(s.text());
        CHECK(error_of<g::causal_only, g::causal_gradient>(s) <= allowed);
        CHECK(error_of<g::alibi, g::alibi_gradient>(s) <= allowed);
    }
    for (const std::int64_t keys : {1, 47, 48, 400}) {
        shape s = usual;
        s.keys = keys;
        INFO(s.text());
        CHECK(error_of<g::full, g::full_gradient>(s) <= allowed);
        CHECK(error_of<g::bias_keys, g::bias_keys_gradient>(s) <= allowed);
    }
    shape s = usual;
    s.gaps = true;
    CHECK(error_of<g::full, g::full_gradient>(s) <= allowed);
    s.gaps = false, s.heads = 3, s.key_heads = 1, s.depth = 24, s.value_depth = 40;
    CHECK(error_of<g::full, g::full_gradient>(s) <= allowed);
    CHECK(error_of<g::full, g::full_gradient>(usual, {0, 77}) <= allowed);
    CHECK(error_of<g::renormalised, g::renormalised_gradient>(usual, {101, 3}) <= allowed);
    CHECK(error_of<g::functions, g::functions_gradient>(usual) <= allowed);
    CHECK(error_of<g::masked_inside, g::masked_inside_gradient>(usual) <= allowed);
}

TEST_CASE("bits of gradients depend neither on threads nor on the run", "[kernels]") {
    const shape s{.batches = 2, .heads = 4, .key_heads = 2, .queries = 301, .keys = 301};
    gradient_call call(dsl::ir_of<g::alibi>, dsl::ir_of<g::alibi_gradient>, s, 3);
    call.run(detail::table_of<g::alibi_gradient>(), 1);
    const auto first = call.results;
    for (const int threads : {1, 2, 3, 7}) {
        call.run(detail::table_of<g::alibi_gradient>(), threads);
        for (std::size_t i = 0; i < first.size(); ++i)
            CHECK(std::memcmp(first[i].data(), call.results[i].data(), first[i].size() * sizeof(float)) == 0);
    }
}

TEST_CASE("a gradient does not broadcast, and nothing is written before that is said", "[kernels]") {
    const shape s{.batches = 2, .heads = 4, .key_heads = 2, .queries = 5, .keys = 5};
    gradient_call call(dsl::ir_of<g::alibi>, dsl::ir_of<g::alibi_gradient>, s, 3);
    float one = -1;
    const std::int64_t shape_of_one[] = {1};
    for (auto& argument : call.arguments)
        if (argument.name == "dslopes") argument.view = tensor(&one, shape_of_one);
    CHECK_THROWS_MATCHES(
        detail::call(detail::table_of<g::alibi_gradient>(), call.arguments, {}), error,
        Catch::Matchers::MessageMatches(Catch::Matchers::ContainsSubstring("expected head extent 4 in dslopes")));
    CHECK(one == -1);
    CHECK(std::isnan(call.results.front().front()));
}
