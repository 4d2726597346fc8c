#include <attune/workload.hpp>
#include "../support/workload_values.hpp"
#include "depths.hpp"
#include "variant_list.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>

using namespace attune;
using namespace attune::testing;
using support::shape;
using support::workload;

namespace {

constexpr double tolerance = 2e-5;  // absolute, of unit-normal inputs

/// Lengths around every edge of a tile, against each other.
std::vector<shape> shapes_around(int query_block, int key_block, std::int64_t depth, std::int64_t value_depth) {
    const std::set<std::int64_t> queries{1, query_block - 1, query_block, query_block + 1, 2 * query_block + 3, 37};
    const std::set<std::int64_t> keys{1, key_block - 1, key_block, key_block + 1, 2 * key_block + 5, 53};
    std::vector<shape> shapes;
    for (std::int64_t lq : queries)
        for (std::int64_t lk : keys)
            if (lq > 0 && lk > 0)
                shapes.push_back({.queries = lq, .keys = lk, .depth = depth, .value_depth = value_depth});
    shapes.push_back({.batches = 3,
                      .heads = 2,
                      .key_heads = 2,
                      .queries = 31,
                      .keys = 67,
                      .depth = depth,
                      .value_depth = value_depth,
                      .gaps = true});
    shapes.push_back({.batches = 2,
                      .heads = 6,
                      .key_heads = 2,
                      .queries = query_block + 1,
                      .keys = key_block + 1,
                      .depth = depth,
                      .value_depth = value_depth,
                      .gaps = true});
    shapes.push_back({.batches = 2,
                      .heads = 5,
                      .key_heads = 1,
                      .queries = 7,
                      .keys = 2 * key_block + 5,
                      .depth = depth,
                      .value_depth = value_depth});
    shapes.push_back({.batches = 1,
                      .heads = 8,
                      .key_heads = 4,
                      .queries = 1,
                      .keys = key_block + 1,
                      .depth = depth,
                      .value_depth = value_depth,
                      .gaps = true});
    return shapes;
}

/// Makes the random inputs of a variant reasonable: slopes small and positive, some of a dense bias masked.
workload prepared(const variant& v, const shape& s, unsigned seed) {
    workload call(v.graph, s, seed, v.numbers);
    if (v.name == "alibi") scale_by(call, "slopes", 0.05f);
    if (v.name == "dense_bias") {
        sprinkle(call, "bias", -std::numeric_limits<float>::infinity(), 4);
        sprinkle(call, "bias", -1e20f, 9);
    }
    return call;
}

struct errors {
    double out = 0, lse = 0;
};

errors judge(const variant& v, workload& call, const std::string& level) {
    call.reset_outputs();
    detail::call(*v.kernels, call.arguments(), {.target = level});
    CHECK(outputs_untouched(call, true));
    const auto expected = reference::evaluate(v.graph, call.reference_arguments());
    const errors e{reference::largest_error(call.view("out"), expected["out"], expected.rows),
                   reference::largest_error(call.view("lse"), expected["lse"], expected.rows)};
    CHECK(e.out <= tolerance);
    if (v.name != "energies") CHECK(e.lse <= tolerance);  // there, lse is -1e20 where no key is visible
    return e;
}

void check_over_shapes(const variant& v, std::int64_t depth, std::int64_t value_depth) {
    const kernel& first = v.kernels->kernels.front();
    for (const std::string& level : levels_here(*v.kernels)) {
        errors worst;
        unsigned seed = 1;
        std::size_t count = 0;
        for (const shape& s : shapes_around(first.query_block, first.key_block, depth, value_depth)) {
            workload call = prepared(v, s, ++seed);
            INFO(v.name << " " << s.text() << " " << level);
            const errors e = judge(v, call, level);
            worst = {std::max(worst.out, e.out), std::max(worst.lse, e.lse)};
            ++count;
        }
        std::printf("%-16s %-12s depth %lldx%lld  %zu shapes  largest error out %.1e lse %.1e\n", v.name.c_str(),
                    level.c_str(), static_cast<long long>(depth), static_cast<long long>(value_depth), count, worst.out,
                    worst.lse);
    }
}

}  // namespace

TEST_CASE("every variant agrees with the reference at every ISA level, whatever the lengths") {
    for (const variant& v : variants()) {
        REQUIRE(!levels_here(*v.kernels).empty());
        check_over_shapes(v, 32, 32);
    }
}

TEST_CASE("depths that fill no vector, and values of another depth") {
    const variant v = variant_of<under_test::any_depth>("any_depth");
    std::set<std::pair<int, int>> depths;
    for (const kernel& k : v.kernels->kernels) depths.insert({k.depth, k.value_depth});
    REQUIRE(depths.size() > 1);
    for (const auto& [depth, value_depth] : depths) check_over_shapes(v, depth, value_depth);
}

TEST_CASE("key lengths, none and all of them included, with every variant") {
    for (const variant& v : variants()) {
        const int block = v.kernels->kernels.front().key_block;
        const shape s{.batches = 6,
                      .heads = 2,
                      .key_heads = 1,
                      .queries = 19,
                      .keys = 2 * block + 5,
                      .depth = 32,
                      .value_depth = 32};
        for (const std::string& level : levels_here(*v.kernels)) {
            workload call = prepared(v, s, 77);
            call.set_lengths({0, 1, block - 1, block, block + 1, static_cast<int>(s.keys)});
            INFO(v.name << " " << level);
            judge(v, call, level);
        }
    }
}

TEST_CASE("inputs broadcast along axes of extent 1") {
    for (const variant& v : variants()) {
        const shape s{
            .batches = 2, .heads = 3, .key_heads = 3, .queries = 21, .keys = 34, .depth = 32, .value_depth = 32};
        workload call = prepared(v, s, 5);
        const auto shorten = [&](const char* name, std::vector<std::int64_t> extents) {
            if (std::ranges::find(v.graph.inputs, name, &input_declaration::name) == v.graph.inputs.end()) return;
            support::owned_tensor& t = call[name];
            t.view = tensor(t.view.type(), static_cast<const void*>(t.view.data()), extents);
        };
        for (const auto& extents : std::vector<std::vector<std::int64_t>>{
                 {1, 3, 21, 34}, {2, 1, 21, 34}, {1, 1, 21, 34}, {2, 3, 1, 34}, {2, 3, 21, 1}, {1, 1, 1, 1}}) {
            shorten("bias", extents);
            shorten("slopes", {1});
            shorten("table", {1, 17});
            shorten("document", {1});
            shorten("is_global", {1});
            INFO(v.name);
            judge(v, call, levels_here(*v.kernels).front());
            if (v.name != "dense_bias") break;
        }
    }
}

TEST_CASE("a scale may be negative, zero, tiny or large") {
    for (const variant& v : variants()) {
        if (v.name == "energies") continue;
        for (double scale : {-0.3, 0.0, 1e-30, -1e-38, 3.0, -3.0}) {
            auto numbers = v.numbers;
            numbers["scale"] = scale;
            workload call(v.graph,
                          {.heads = 2, .key_heads = 2, .queries = 41, .keys = 135, .depth = 32, .value_depth = 32}, 6,
                          numbers);
            if (v.name == "alibi") scale_by(call, "slopes", 0.05f);
            INFO(v.name << ", scale " << scale);
            judge(v, call, levels_here(*v.kernels).front());
        }
    }
}

TEST_CASE("a row of -1e20 is the mean of all values, not an empty row") {
    const auto& all = variants();
    const variant& v = *std::ranges::find(all, "energies", &variant::name);
    workload call(v.graph, {.queries = 3, .keys = 67, .depth = 32, .value_depth = 32}, 3);
    detail::call(*v.kernels, call.arguments(), {});
    double mean = 0;
    for (std::size_t key = 0; key < 67; ++key) mean += call["v"].reals[key * 32] / 67.0;
    CHECK(std::abs(call["out"].reals[0] - mean) < 1e-6);
    CHECK(call["lse"].reals[0] < -9e19f);
    CHECK(call["lse"].reals[0] > -std::numeric_limits<float>::infinity());
}

TEST_CASE("scores as low as floats go are scores") {
    const auto& all = variants();
    const variant& v = *std::ranges::find(all, "dense_bias", &variant::name);
    workload call(v.graph, {.queries = 2, .keys = 5, .depth = 32, .value_depth = 32}, 4);
    std::ranges::fill(call["q"].reals, 0.0f);
    const float lowest = std::numeric_limits<float>::lowest(), inf = std::numeric_limits<float>::infinity();
    call["bias"].reals = {lowest, -inf, lowest, -inf, -inf, -inf, -inf, -inf, -inf, -inf};
    detail::call(*v.kernels, call.arguments(), {});
    const auto& values = call["v"].reals;
    CHECK(std::abs(call["out"].reals[0] - (values[0] + values[64]) / 2) < 1e-6);
    CHECK(call["lse"].reals[0] < -3.4e38f);
    CHECK(call["lse"].reals[0] > -inf);
    CHECK(call["out"].reals[32] == 0.0f);
    CHECK(call["lse"].reals[1] == -inf);
}
