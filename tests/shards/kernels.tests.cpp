// The same law of kernels: calls of a shard's kernel, outputs and states in two buffers that take turns.
#include "../support/workload_values.hpp"
#include "cut_call.hpp"
#include "variants.hpp"

#include <attune/runtime/run.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <string>

using namespace attune;
using namespace attune::testing;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct part_of_rows {
    std::vector<std::int64_t> shape;
    std::vector<float> now, next;
    tensor before() const { return {now.data(), shape}; }
    tensor after() { return {next.data(), shape}; }
};

/// The rows of one set of queries, by a call of the kernel for each set of keys.
std::vector<part_of_rows> rows_by_kernel(const kernel_table& table, const graph_ir& shard, const whole_call& whole,
                                         cut_arguments& arguments, const positions& queries,
                                         const std::vector<positions>& keys) {
    std::vector<part_of_rows> rows;
    for (const reference::array& output : whole.expected.outputs) {
        part_of_rows& each = rows.emplace_back(part_of_rows{output.shape, {}, {}});
        each.shape[2] = std::ssize(queries);
        std::size_t size = 1;
        for (const std::int64_t extent : each.shape) size *= static_cast<std::size_t>(extent);
        const bool of_sums = output.name == "sum" || (output.name == "out" && whole.expected.outputs[1].name == "sum");
        each.now.assign(size, of_sums ? 0.0f : output.name == "out" ? std::nanf("") : -infinity);
        each.next.assign(size, std::nanf(""));
    }
    for (std::size_t part = 0; part < keys.size(); ++part) {
        std::vector<detail::named_argument> call;
        for (const reference::argument& a : arguments.of(queries, keys[part], part + 1 == keys.size()))
            if (std::ranges::find(shard.inputs, a.name, &input_declaration::name) != shard.inputs.end())
                call.push_back(named(a, shard));
        std::vector<std::string> names;
        for (const reference::array& output : whole.expected.outputs) names.push_back(output.name + "_before");
        for (std::size_t i = 0; i < rows.size(); ++i) {
            call.push_back({.name = names[i], .view = rows[i].before()});
            call.push_back({.name = shard.outputs[i].name, .view = rows[i].after()});
        }
        detail::call(table, call, {});
        for (part_of_rows& each : rows) std::swap(each.now, each.next);
    }
    return rows;
}

/// As a part of 1 + what is expected: log-sum-exps are as large as distances.
double largest_difference(const part_of_rows& got, const reference::array& expected, const positions& queries) {
    const std::int64_t width = got.shape.size() > 3 ? got.shape[3] : 1, all = expected.shape[2];
    double worst = 0;
    for (std::int64_t at = 0; at < std::ssize(got.now); ++at) {
        const std::int64_t row = at / width, above = row / got.shape[2];
        const std::int64_t query = queries[static_cast<std::size_t>(row % got.shape[2])];
        const double x = got.now[static_cast<std::size_t>(at)],
                     y = expected.values[static_cast<std::size_t>((above * all + query) * width + at % width)];
        if (x != y) worst = std::max(worst, std::isfinite(x - y) ? std::abs(x - y) / (1 + std::abs(y)) : infinity);
    }
    return worst;
}

template <const auto& Whole, const auto& Shard>
void check(const char* name, const support::shape& shape, const std::vector<std::int32_t>& lengths) {
    double worst = 0;
    for (unsigned seed = 1; seed <= 6; ++seed) {
        support::workload call(dsl::ir_of<Whole>, shape, seed);
        const graph_ir graph = dsl::ir_of<Whole>;
        if (std::ranges::find(graph.inputs, "slopes", &input_declaration::name) != graph.inputs.end())
            scale_by(call, "slopes", 0.05f);
        if (!lengths.empty()) call.set_lengths(lengths);
        const whole_call whole(dsl::ir_of<Whole>, call.reference_arguments(), {});
        const graph_ir shard = dsl::ir_of<Shard>;
        cut_arguments arguments(whole, shard);
        std::mt19937 random(seed);
        const cut by = random_cut(shape.queries, shape.keys, random);
        for (const positions& queries : by.queries) {
            if (queries.empty()) continue;
            const auto rows = rows_by_kernel(detail::table_of<Shard>(), shard, whole, arguments, queries, by.keys);
            for (std::size_t i = 0; i < rows.size(); ++i)
                worst = std::max(worst, largest_difference(rows[i], whole.expected.outputs[i], queries));
        }
    }
    std::printf("%s: largest error %.1e\n", name, worst);
    CHECK(worst < 2e-5);
}

}  // namespace

TEST_CASE("a call has its own rows of what is over queries or keys, and all keys of what is over both") {
    const auto axes_of = [](const graph_ir& graph, std::string_view name) {
        const auto input = std::ranges::find(graph.inputs, name, &input_declaration::name);
        REQUIRE(input != graph.inputs.end());
        std::string axes;
        for (std::size_t a = 0; a < input->rank; ++a) axes.append(" ").append(input->axes[a].name);
        return axes;
    };
    CHECK(axes_of(dsl::ir_of<sharded::documents_shard>, "bias") == " query all_keys");
    CHECK(axes_of(dsl::ir_of<sharded::documents_shard>, "document") == " position");
    CHECK(axes_of(dsl::ir_of<sharded::documents_shard>, "k") == " batch key_head key depth");
    CHECK(axes_of(dsl::ir_of<sharded::windowed_shard>, "by_key") == " batch key");
}

TEST_CASE("kernels of shards, on random cuts, come to the whole") {
    const support::shape shape{.batches = 2, .heads = 4, .key_heads = 2, .queries = 75, .keys = 90};
    check<sharded::windowed, sharded::windowed_shard>("windowed", shape, {});
    check<sharded::windowed, sharded::windowed_shard>("windowed, lengths", shape, {61, 0});
    check<sharded::documents, sharded::documents_shard>("documents", shape, {90, 33});
    check<sharded::sigmoid_attention, sharded::sigmoid_shard>("sigmoids", shape, {});
}

TEST_CASE("kernels of shards for a few queries come to the whole") {
    const support::shape shape{.batches = 2, .heads = 4, .key_heads = 2, .queries = 3, .keys = 400};
    check<sharded::windowed, sharded::windowed_shard>("decode", shape, {400, 77});
}

TEST_CASE("a shard is called by its inputs' names") {
    using namespace attune::dsl;
    const support::shape shape{.batches = 1, .heads = 2, .key_heads = 2, .queries = 2, .keys = 3};
    support::workload whole(ir_of<sharded::windowed>, shape, 5);
    const auto expected = whole.expected();
    const std::vector<std::int32_t> both{0, 1}, every_second{2, 0}, the_other{1}, all{3};
    std::vector<float> o[2], l[2];
    for (int i : {0, 1}) o[i].assign(2 * 2 * 32, 0.0f), l[i].assign(2 * 2, -infinity);
    const auto keys_of = [](const tensor& t, std::int64_t first, std::int64_t count, std::int64_t step) {
        std::vector<std::int64_t> extents(t.shape().begin(), t.shape().end());
        std::vector<std::int64_t> strides(t.strides().begin(), t.strides().end());
        const std::size_t key = extents.size() == 2 ? 1 : 2;
        const float* from = static_cast<const float*>(t.data()) + first * strides[key];
        extents[key] = count, strides[key] *= step;
        return tensor(from, extents, strides);
    };
    const auto add = [&](const std::vector<std::int32_t>& places, std::int64_t step, int from, int sinks_join) {
        const auto rows = [&](std::string_view name) {
            return keys_of(whole.view(name), places[0], std::ssize(places), step);
        };
        attune::run<sharded::windowed_shard>(
            q = whole.view("q"), k = rows("k"), v = rows("v"), sharded::by_key = rows("by_key"),
            sharded::slopes = whole.view("slopes"), sharded::sinks = whole.view("sinks"),
            of_shard::query_positions = tensor(both.data(), {2}),
            of_shard::key_positions = tensor(places.data(), {std::ssize(places)}), of_shard::all_queries = 2,
            of_shard::lengths = tensor(all.data(), {1}), of_shard::with_sinks = sinks_join,
            before(out) = tensor(o[from].data(), {1, 2, 2, 32}), before(lse) = tensor(l[from].data(), {1, 2, 2}),
            out = tensor(o[1 - from].data(), {1, 2, 2, 32}), lse = tensor(l[1 - from].data(), {1, 2, 2}));
    };
    add(every_second, -2, 0, 1);
    add(the_other, 1, 1, 0);
    CHECK(reference::largest_error(tensor(o[0].data(), {1, 2, 2, 32}), expected["out"], expected.rows) < 2e-5);
    CHECK(reference::largest_error(tensor(l[0].data(), {1, 2, 2}), expected["lse"], expected.rows) < 2e-5);
}
