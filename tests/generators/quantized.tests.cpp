// Keys and values that the call itself quantises by block, compiled in process, against the reference.
#include "tested_levels.hpp"

#include "inspect/plan_text.hpp"
#include "kernel/kernel_list.hpp"
#include "plans/kernel_plan.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/catalogue/quantized.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;

inline constexpr auto hidden = mask(catalogue::sage_scores<16>(q, k), causal_bottom_right);
inline constexpr auto whole = outputs(out = softmax(hidden) * values(quantized<i8, 48>(v)), lse = log_sum_exp(hidden));
inline constexpr auto in_bytes = quantized<u8>(softmax(hidden)) * values(quantized<i8, 48>(v));

generators::listed_kernel listed(const generators::variant& of, const std::string& level, const std::string& dtypes,
                                 const std::string& depths, const std::string& shapes) {
    return generators::kernels_of({&of, 1},
                                  {.targets = {level}, .dtypes = {dtypes}, .depths = {depths}, .shapes = {shapes}})
        .front();
}

/// Sixteenths of -31 to 31, with 31 in the first channel of every row: a code is never near halfway between two others,
/// so that kernels and the reference agree on all of them. Keys lie in pairs beside a common row, their mean.
void draw_sixteenths(workload& call, std::string_view name, float common) {
    support::owned_tensor& of = call[name];
    const tensor& view = of.view;
    const bool in_pairs = name == "k";
    const auto at = [&](std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t d) -> float& {
        return of.reals[static_cast<std::size_t>(b * view.stride(0) + h * view.stride(1) + row * view.stride(2) +
                                                 d * view.stride(3))];
    };
    for (std::int64_t b = 0; b < view.extent(0); ++b)
        for (std::int64_t h = 0; h < view.extent(1); ++h)
            for (std::int64_t row = 0; row < view.extent(2); ++row)
                for (std::int64_t d = 0; d < view.extent(3); ++d) {
                    const int drawn = static_cast<int>(call.random() % 63) - 31;
                    const float x = static_cast<float>(d == 0 ? 31 : drawn) / 16,
                                shared = common * static_cast<float>(d % 5);
                    at(b, h, row, d) = in_pairs && row % 2 == 1 ? 2 * shared - at(b, h, row - 1, d) : x + shared;
                }
}

/// Keys and values that are not in use are large: they would widen every step, and move the mean.
void spoil_unused(workload& call, const std::vector<std::int32_t>& lengths) {
    for (const char* const name : {"k", "v"}) {
        support::owned_tensor& of = call[name];
        for (std::int64_t b = 0; b < of.view.extent(0); ++b)
            for (std::int64_t h = 0; h < of.view.extent(1); ++h)
                for (std::int64_t row = lengths[static_cast<std::size_t>(b)]; row < of.view.extent(2); ++row)
                    for (std::int64_t d = 0; d < of.view.extent(3); ++d)
                        of.reals[static_cast<std::size_t>(b * of.view.stride(0) + h * of.view.stride(1) +
                                                          row * of.view.stride(2) + d * of.view.stride(3))] = 1e4f;
    }
}

struct errors {
    double out, lse;
};
errors errors_of(const generators::variant& of, const generators::listed_kernel& made, support::shape shape) {
    workload call(of.graph, shape, 5);
    for (const char* const name : {"q", "v"}) draw_sixteenths(call, name, 0);
    draw_sixteenths(call, "k", 0.5f);
    const auto keys = static_cast<std::int32_t>(shape.keys);
    const std::vector<std::int32_t> lengths{keys, 0, std::max(keys / 2 / 2 * 2, 2)};
    call.set_lengths(lengths);
    spoil_unused(call, lengths);
    const bool narrow = made.request.types.query == element_type::bf16;
    for (const char* const name : {"q", "k", "v", "out"})
        if (narrow) call.convert(name, element_type::bf16);
    const auto expected = call.expected();
    const generators::jit_kernel kernel(made);
    attune::detail::call(kernel.table(), call.arguments(), {.threads = 2});
    return {call.largest_error(expected, "out"), of.graph.outputs.size() > 1 ? call.largest_error(expected, "lse") : 0};
}

}  // namespace

TEST_CASE("keys and values that a call quantises by block are those of the formula", "[quantized]") {
    const generators::variant of{"my::sage", ir_of<whole>};
    const std::string level(testing::tested_levels().front().name);
    const errors found = errors_of(
        of, listed(of, level, "f32", "64", "prefill"),
        {.batches = 3, .heads = 4, .key_heads = 2, .queries = 37, .keys = 202, .depth = 64, .value_depth = 64});
    CHECK(found.out < 4e-5);
    CHECK(found.lse < 4e-5);
}

TEST_CASE("so they are in bytes and bf16, in decode, and at other depths, on every level", "[quantized][.long]") {
    for (const generators::level& level : generators::levels()) {
        if (level.is_gpu || !runs(level.name)) continue;
        for (const auto& [graph, dtypes, depths, shapes, queries, bound] :
             {std::tuple(ir_of<in_bytes>, "f32", "64", "prefill", 67, 4e-2),
              {ir_of<in_bytes>, "f32", "80x48", "prefill", 20, 4e-2},
              {ir_of<in_bytes>, "bf16", "64", "prefill", 67, 4e-2},
              {ir_of<whole>, "bf16", "64", "prefill", 33, 1e-2},
              {ir_of<whole>, "f32", "20x36", "prefill", 33, 4e-5},
              {ir_of<whole>, "f32", "64", "decode", 2, 4e-5},
              {ir_of<in_bytes>, "f32", "64", "decode", 1, 2e-2}}) {
            const generators::variant of{"my::sage", graph};
            const auto [depth, value_depth] = generators::depth_pair_from(depths);
            for (const auto& [heads, key_heads, keys] : {std::tuple(4, 1, 700), {2, 2, 130}, {6, 2, 18}, {2, 1, 2}}) {
                CAPTURE(level.name, dtypes, depths, shapes, heads, keys);
                const errors found = errors_of(of, listed(of, std::string(level.name), dtypes, depths, shapes),
                                               {.batches = 3,
                                                .heads = heads,
                                                .key_heads = key_heads,
                                                .queries = queries,
                                                .keys = keys,
                                                .depth = depth,
                                                .value_depth = value_depth});
                CHECK(found.out < bound);
                CHECK(found.lse < bound);
            }
        }
    }
}

TEST_CASE("codes that a call makes are kept in bytes, and multiplied as such", "[quantized]") {
    const generators::variant of{"my::sage", ir_of<in_bytes>};
    const auto made = listed(of, "x86-64-v4-amx", "f32", "64", "prefill");
    const generators::kernel_plan plan = generators::plan_kernel(made.request);
    CHECK(std::ranges::count(plan.precomputed, true, &generators::precomputed_plan::in_bytes) == 2);
    CHECK(generators::pairing_of(made.request.schedule) == generators::bytes_of_tile);
    CHECK(generators::plan_text(made).find("in bytes") != std::string::npos);
    static constexpr auto written =
        outputs(out = softmax(q * t(k)) * v,
                output<"codes"> = precomputed(as_real(clamp(as_integer(k(b, h, dsl::detail::each_key, 0)), -9, 9)),
                                              dsl::detail::each_key, key_length));
    const generators::variant output{"my::codes", ir_of<written>};
    CHECK(!generators::plan_kernel(listed(output, "x86-64-v4", "f32", "64", "prefill").request)
               .precomputed.at(0)
               .in_bytes);
}
