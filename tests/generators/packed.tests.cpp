// Packed queries over caches: kernels for decode and for prefill in one call, each sequence against the reference.
#include "../support/workload_values.hpp"
#include "kernel/kernel_list.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/catalogue/selectors.hpp>
#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/error.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace attune;
using Catch::Matchers::ContainsSubstring;
using support::workload;

namespace {
using namespace attune::dsl;

inline constexpr auto seen = mask(q * t(k) * rsqrt(depth), causal_bottom_right);
inline constexpr auto contiguous = outputs(out = softmax(seen) * v, lse = log_sum_exp(seen));

inline constexpr auto slant = input<"slant", f32>(query);
inline constexpr auto slanted = softmax(seen + slant(q_idx) * kv_idx) * v;

inline constexpr auto block_table = input<"block_table", i32>(batch, axis<"block">);
inline constexpr auto k_pages = input<"k_pages", u8>(axis<"page">, key_head, axis<"token">, depth);
inline constexpr auto v_pages = input<"v_pages", f32>(axis<"page">, key_head, axis<"token">, value_depth);
inline constexpr auto temperature = input<"temperature", f32>(batch, query);
inline constexpr auto length = extent<1>(block_table) * 16;
inline constexpr auto page = block_table(b, kv_idx / 16);
inline constexpr auto in_pages = keys(as_real(k_pages(page, h, kv_idx % 16, d_idx) - 128) * 0.01, length);
inline constexpr auto paged = softmax(mask(q * t(in_pages) * temperature(b, q_idx), bottom_right(window(150, 0)))) *
                              values(v_pages(page, h, kv_idx % 16, d_idx), length);

inline constexpr auto means = catalogue::mean_of_keys(k, 32, depth);
inline constexpr auto chosen_blocks = catalogue::moba(q, means, 32, 3);
inline constexpr auto chosen = softmax(mask(seen, chosen_blocks)) * v;
inline constexpr auto chosen_share = catalogue::xattention(q, k, 32, 8, 0.5);
inline constexpr auto chosen_by_share = softmax(mask(seen, chosen_share)) * v;

/// Precomputed tensors and choices of another sequence than the query's own.
inline constexpr auto numbers = catalogue::moba_scores(q, means, 32);
inline constexpr auto numbers_elsewhere = softmax(seen + numbers(0, h, q_idx, kv_idx / 32)) * v;
inline constexpr auto chosen_elsewhere = softmax(mask(seen, top_k(numbers, 3)(0, h, q_idx, kv_idx / 32))) * v;

/// Kernels of both kinds in one table.
struct compiled {
    explicit compiled(const graph_ir& graph) : of{"my::packed", graph} {
        std::string level;
        for (const generators::level& each : generators::levels())
            if (level.empty() && runs(each.name)) level = each.name;
        const auto list = generators::kernels_of(
            {&of, 1}, {.targets = {level}, .dtypes = {"f32"}, .depths = {"32"}, .shapes = {"prefill", "decode"}});
        for (const auto& each : list) {
            made.push_back(std::make_unique<generators::jit_kernel>(each));
            rows.push_back(made.back()->table().kernels.front());
            rows.back().to_queries = each.to_queries;
        }
        table = {.version = kernel_table_version, .variant = "my::packed", .graph = of.graph, .kernels = rows};
    }
    generators::variant of;
    std::vector<std::unique_ptr<generators::jit_kernel>> made;
    std::vector<kernel> rows;
    kernel_table table{};
};

/// Sequences with so many queries and keys in use, over caches with room for 300 keys each.
struct step {
    step(const graph_ir& graph, std::vector<std::int32_t> queries, std::vector<std::int32_t> keys)
        : graph(graph), queries(std::move(queries)), lengths(std::move(keys)), call(graph, shape(), 11, {}, sizes()) {
        for (const std::int32_t count : this->queries) starts.push_back(starts.back() + count);
        call.set_lengths(lengths);
    }
    std::int64_t sequences() const { return static_cast<std::int64_t>(queries.size()); }
    support::shape shape() const {
        std::int64_t total = 0;
        for (const std::int32_t count : queries) total += count;
        return {.batches = sequences(), .heads = 4, .key_heads = 2, .queries = total, .keys = 300};
    }
    std::map<std::string, std::int64_t> sizes() const {
        return {{"block", 19}, {"page", 19 * sequences() + 3}, {"token", 16}};
    }

    static int axis_of(const tensor& t, std::string_view name) {
        return name == "q" || name == "out" || name == "lse" ? 2
               : name == "temperature" || name == "slant"    ? t.rank() - 1
                                                             : -1;
    }
    /// The queries of all sequences lie where those of the first batch element are.
    tensor rows(std::string_view name, std::int64_t from, std::int64_t count) {
        const tensor t = call.view(name);
        const int axis = axis_of(t, name);
        std::vector<std::int64_t> extents(t.shape().begin(), t.shape().end()),
            strides(t.strides().begin(), t.strides().end());
        extents[0] = 1, extents[static_cast<std::size_t>(axis)] = count;
        return {static_cast<float*>(t.mutable_data()) + from * t.stride(axis), extents, strides};
    }
    std::vector<attune::detail::named_argument> arguments() {
        auto all = call.arguments();
        for (auto& each : all)
            if (each.view.rank() > 0 && axis_of(each.view, each.name) >= 0)
                each.view = rows(each.name, 0, starts.back());
        all.push_back({.name = "cu_seqlens_q", .view = {starts.data(), {sequences() + 1}}});
        return all;
    }
    /// The largest error of any sequence against the reference of it alone.
    double largest_error() {
        double worst = 0;
        for (std::size_t b = 0; b < queries.size(); ++b) {
            if (queries[b] == 0) continue;
            std::vector<reference::argument> alone;
            for (const auto& each : call.arguments()) {
                tensor t = each.view;
                if (axis_of(t, each.name) >= 0) {
                    t = rows(each.name, starts[b], queries[b]);
                } else if (each.name == "k" || each.name == "v" || each.name == "block_table" ||
                           each.name == "kv_lengths") {
                    std::vector<std::int64_t> extents(t.shape().begin(), t.shape().end()),
                        strides(t.strides().begin(), t.strides().end());
                    extents[0] = 1;
                    auto* const at =
                        static_cast<std::byte*>(t.mutable_data()) +
                        static_cast<std::int64_t>(b) * t.stride(0) * static_cast<std::int64_t>(bytes_of(t.type()));
                    t = tensor(t.type(), static_cast<void*>(at), extents, strides);
                }
                alone.push_back({each.name, t});
            }
            const auto expected = reference::evaluate(graph, alone);
            for (const output_declaration& output : graph.outputs)
                worst = std::max(worst, reference::largest_error(rows(output.name, starts[b], queries[b]),
                                                                 expected[output.name], expected.rows));
        }
        return worst;
    }
    std::vector<float> bits(std::int64_t from, std::int64_t count) {
        std::vector<float> all;
        const tensor t = rows("out", from, count);
        support::for_each_offset(t, [&](std::int64_t at) { all.push_back(static_cast<const float*>(t.data())[at]); });
        return all;
    }

    graph_ir graph;
    std::vector<std::int32_t> queries, lengths, starts{0};
    workload call;
};

const std::vector<std::int32_t> mixed_queries{1, 1, 1, 0, 40, 1, 17, 16, 1, 1},
    mixed_keys{300, 0, 1, 77, 40, 129, 290, 5, 0, 256};

}  // namespace

TEST_CASE("packed queries over contiguous caches agree with the reference, on any number of threads", "[packed]") {
    const compiled kernels(ir_of<contiguous>);
    step all(kernels.of.graph, mixed_queries, mixed_keys);
    attune::detail::call(kernels.table, all.arguments(), {.threads = 1});
    CHECK(all.largest_error() < 2e-5);
    const auto first = all.bits(0, all.starts.back());
    for (const int threads : {2, 3, 7}) {
        all.call.reset_outputs();
        attune::detail::call(kernels.table, all.arguments(), {.threads = threads});
        const auto again = all.bits(0, all.starts.back());
        CHECK(std::memcmp(first.data(), again.data(), first.size() * sizeof(float)) == 0);
    }
    const explanation what = attune::detail::explain(kernels.table, all.arguments(), {});
    REQUIRE(what.packed.size() == 7);
    CHECK(what.packed[0].kernel != what.packed[2].kernel);
    CHECK(what.packed[2].kernel == what.packed[4].kernel);
    CHECK(what.packed[5].kernel == what.packed[0].kernel);
}

TEST_CASE("what has queries and no batch is read where each sequence's queries are", "[packed]") {
    const compiled kernels(ir_of<slanted>);
    step all(kernels.of.graph, mixed_queries, mixed_keys);
    attune::detail::call(kernels.table, all.arguments(), {});
    CHECK(all.largest_error() < 5e-5);  // scores times a temperature: 2.1e-5 without fused multiply-adds
}

namespace {

void check_choices(const graph_ir& graph) {
    const compiled kernels(graph);
    step all(kernels.of.graph, mixed_queries, mixed_keys);
    for (const int threads : {1, 3}) {
        all.call.reset_outputs();
        attune::detail::call(kernels.table, all.arguments(), {.threads = threads});
        CHECK(all.largest_error() < 2e-5);
    }
}

}  // namespace

TEST_CASE("packed queries choose blocks among their own sequence's", "[packed][precomputed]") {
    check_choices(ir_of<chosen>);
}

TEST_CASE("packed queries choose a share of the blocks of their own sequence's", "[packed][precomputed][.long]") {
    check_choices(ir_of<chosen_by_share>);
}

TEST_CASE("packed queries do not read what another sequence precomputes or chooses", "[packed][precomputed]") {
    for (const graph_ir& graph : {ir_of<numbers_elsewhere>, ir_of<chosen_elsewhere>}) {
        CAPTURE(graph.text);
        // Refused before a kernel is chosen: none is needed.
        const kernel_table table{
            .version = kernel_table_version, .variant = "my::packed", .graph = graph, .kernels = {}};
        step all(graph, mixed_queries, mixed_keys);
        CHECK_THROWS_WITH(attune::detail::call(table, all.arguments(), {}),
                          ContainsSubstring("got a batch axis that is read elsewhere than at b"));
        CHECK(outputs_untouched(all.call));
    }
}

TEST_CASE("the bits of a sequence do not depend on what is packed beside it, where that is asked for", "[packed]") {
    const compiled kernels(ir_of<contiguous>);
    const auto last = [&](std::vector<std::int32_t> queries) {
        std::vector<std::int32_t> keys(queries.size(), 300);
        step some(kernels.of.graph, queries, keys);
        // The same tensors for the last sequence: copies of the first one's.
        step alone(kernels.of.graph, {queries.back()}, {300});
        const auto copy = [&](const char* name, tensor to) {
            const tensor from = name[0] == 'q' ? alone.rows("q", 0, queries.back()) : alone.call.view(name);
            std::vector<float> numbers;
            support::for_each_offset(
                from, [&](std::int64_t at) { numbers.push_back(static_cast<const float*>(from.data())[at]); });
            std::size_t next = 0;
            support::for_each_offset(
                to, [&](std::int64_t at) { static_cast<float*>(to.mutable_data())[at] = numbers[next++]; });
        };
        copy("q", some.rows("q", some.starts.back() - queries.back(), queries.back()));
        for (const char* const name : {"k", "v"}) {
            const tensor t = some.call.view(name);
            copy(name, tensor(static_cast<float*>(t.mutable_data()) + (some.sequences() - 1) * t.stride(0),
                              {1, t.extent(1), t.extent(2), t.extent(3)}, {t.stride(0), t.stride(1), t.stride(2), 1}));
        }
        attune::detail::call(kernels.table, some.arguments(), {.threads = 2, .deterministic = true});
        return some.bits(some.starts.back() - queries.back(), queries.back());
    };
    for (const std::int32_t count : {1, 20}) {
        const auto alone = last({count});
        CHECK(alone == last({1, count}));
        CHECK(alone == last({count, 0, 5, 20, count}));
        CHECK(alone == last({1, 1, 1, 1, 1, 1, 1, count}));
    }
}

TEST_CASE("packed queries over pages agree with the reference, whatever lies behind the keys in use", "[packed]") {
    const compiled kernels(ir_of<paged>);
    step all(kernels.of.graph, mixed_queries, mixed_keys);
    all.call.draw("k_pages", 0, 255);
    scale_by(all.call, "temperature", 0.3f);
    std::vector<std::int32_t>& table = all.call["block_table"].integers;
    std::minstd_rand random(5);
    for (std::int32_t& entry : table) entry = static_cast<std::int32_t>(random() % 190);
    const tensor entries = all.call.view("block_table");
    for (std::size_t b = 0; b < mixed_keys.size(); ++b)  // what is not in use is no page
        for (std::int64_t block = (mixed_keys[b] + 15) / 16; block < 19; ++block)
            table[b * static_cast<std::size_t>(entries.stride(0)) + static_cast<std::size_t>(block)] =
                block % 2 ? -1 : 1 << 30;
    auto pages = table;
    attune::detail::call(kernels.table, all.arguments(), {.threads = 2});
    for (std::int32_t& entry : table) entry = std::clamp(entry, 0, 189);
    CHECK(all.largest_error() < 1e-4);

    for (const std::size_t b : {0, 5, 6}) {
        table = pages;
        table[b * static_cast<std::size_t>(entries.stride(0)) + 2] = 193;
        all.call.reset_outputs();
        CHECK_THROWS_WITH(attune::detail::call(kernels.table, all.arguments(), {.threads = 2}),
                          ContainsSubstring("got 193 at (batch " + std::to_string(b) + ", block 2)"));
        CHECK(outputs_untouched(all.call));
    }
}
