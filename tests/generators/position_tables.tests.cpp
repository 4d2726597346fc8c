// Tables over position that end with the keys in use: kernels for prefill, for decode and of a gradient read no
// further, and make what the reference makes.
#include "../properties/guarded_memory.hpp"
#include "kernel/kernel_list.hpp"
#include "tested_levels.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/dsl/gradient.hpp>
#include <attune/dsl/layers.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/error.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;
inline constexpr auto words = input<"words", i32>(batch, position);
inline constexpr auto gains = input<"gains", f32>(position);
inline constexpr auto seen =
    mask(q * t(k) * rsqrt(depth) + gains(kv_idx), causal_bottom_right&& words(b, q_idx) <= words(b, kv_idx));
inline constexpr auto documents = outputs(out = softmax(seen) * v, lse = log_sum_exp(seen));
inline constexpr auto documents_gradient = gradient(documents, of(out), wrt(q, gains));

inline constexpr auto cosines = input<"cosines", f32>(position, axis<"pair">);
inline constexpr auto sines = input<"sines", f32>(position, axis<"pair">);
inline constexpr auto turned = softmax(queries(rotary_half(q, cosines, sines, new_kv_idx)) *
                                       t(keys(rotary_half(k, cosines, sines, kv_idx))) * rsqrt(depth)) *
                               v;

std::unique_ptr<generators::jit_kernel> compiled(const generators::variant& of, const char* shapes) {
    const std::string level(attune::testing::tested_levels().front().name);
    return std::make_unique<generators::jit_kernel>(
        generators::kernels_of({&of, 1}, {.targets = {level}, .dtypes = {"f32"}, .depths = {"16"}, .shapes = {shapes}})
            .front());
}

/// A call over slots of which some are in use, whose tables have `entries` along position; the page behind the last one
/// may not be touched.
struct short_call {
    static constexpr std::int64_t batches = 2, slots = 330, pairs = 8;
    workload call;
    std::vector<std::unique_ptr<attune::testing::guarded_memory<float>>> reals;
    std::unique_ptr<attune::testing::guarded_memory<std::int32_t>> integers;

    short_call(const graph_ir& graph, std::int64_t queries, std::vector<std::int32_t> in_use, std::int64_t entries)
        : call(graph,
               {.batches = batches,
                .heads = 4,
                .key_heads = 2,
                .queries = queries,
                .keys = slots,
                .depth = 16,
                .value_depth = 16},
               5, {}, {{"pair", pairs}}) {
        call.set_lengths(std::move(in_use));
        for (const input_declaration& d : graph.inputs) {
            if (std::ranges::none_of(d.axes, [](const auto& axis) { return axis.kind == axis_kind::position; }))
                continue;
            support::owned_tensor& t = call[d.name];
            if (d.element == element_type::i32) {
                integers = std::make_unique<attune::testing::guarded_memory<std::int32_t>>(batches * entries);
                for (std::int64_t i = 0; i < batches * entries; ++i)
                    integers->data()[i] = static_cast<std::int32_t>(i * 7 % 5);
                t.view = {integers->data(), {batches, entries}};
                continue;
            }
            const std::int64_t width = d.rank == 2 ? pairs : 1;
            auto& at = *reals.emplace_back(std::make_unique<attune::testing::guarded_memory<float>>(entries * width));
            std::copy_n(t.reals.begin(), entries * width, at.data());
            t.view = d.rank == 2 ? tensor(at.data(), {entries, width}) : tensor(at.data(), {entries});
        }
    }
    /// Another extent of an output over position.
    void shorten(std::string_view output, std::int64_t entries) {
        call[output].view = tensor(call[output].reals.data(), {entries});
    }
    std::string run(const generators::jit_kernel& kernel) {
        try {
            attune::detail::call(kernel.table(), call.arguments(), {.threads = 2});
        } catch (const attune::error& e) {
            return e.what();
        }
        return "";
    }
};

void check(const graph_ir& graph, const char* shapes, std::initializer_list<std::int64_t> queries) {
    const generators::variant of{"my::variant", graph};
    const auto kernel = compiled(of, shapes);
    for (const std::int64_t count : queries)
        for (const std::int64_t entries : {70, 71, 329}) {
            short_call c(graph, count, {70, 41}, entries);
            INFO(graph.text << ", " << shapes << ", " << count << " queries, " << entries << " entries");
            REQUIRE(c.run(*kernel) == "");
            const auto expected = c.call.expected();
            for (const output_declaration& output : graph.outputs)
                CHECK(c.call.largest_error(expected, output.name) < 5e-5);
            short_call one_less(graph, count, {70, 41}, 69);
            CHECK_THAT(one_less.run(*kernel),
                       Catch::Matchers::StartsWith("attune: expected an extent of at least 70 (the longer of queries "
                                                   "and keys in use) or 1 along position of "));
        }
}

}  // namespace

TEST_CASE("tables over position end with the keys in use", "[positions]") {
    check(ir_of<documents>, "prefill", {3, 40});
    check(ir_of<documents>, "decode", {1, 3});
    check(ir_of<turned>, "decode", {1});
    check(ir_of<turned>, "prefill", {40});
}

TEST_CASE("a gradient of a table over position that ends with the keys in use", "[.long]") {
    const graph_ir graph = ir_of<documents_gradient>;
    const generators::variant of{"my::variant", graph};
    const auto kernel = compiled(of, "prefill");
    short_call c(graph, 40, {70, 41}, 70);
    c.shorten("dgains", 70);
    REQUIRE(c.run(*kernel) == "");
    const auto expected = c.call.expected();
    for (const output_declaration& output : graph.outputs) CHECK(c.call.largest_error(expected, output.name) < 5e-5);
}
