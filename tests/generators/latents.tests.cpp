// Decode where keys and values are rows of one tensor: latents, whose first channels are the value, and keys and values
// side by side.
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;

/// As absorbed multi-head latent attention has them: the key of every query head.
template <auto type> struct latents {
    static constexpr auto rows = input<"rows", type>(batch, key, depth);
    static constexpr auto scores = q * t(keys(rows(b, kv_idx, d_idx))) * rsqrt(depth);
    static constexpr auto attention = softmax(mask(scores, causal_bottom_right)) * values(rows(b, kv_idx, d_idx));
};
inline constexpr auto of_f32 = latents<f32>::attention;
inline constexpr auto of_bf16 = latents<bf16>::attention;

/// The same with an axis of key heads.
inline constexpr auto headed = input<"rows", f32>(batch, key_head, key, depth);
inline constexpr auto of_heads =
    softmax(mask(q * t(headed) * rsqrt(depth), causal_bottom_right)) * values(headed(b, h, kv_idx, d_idx));

/// A token's key, then its value.
inline constexpr auto pairs = input<"pairs", f32>(batch, key_head, key, axis<"of">, depth);
inline constexpr auto side_by_side =
    softmax(mask(q * t(keys(pairs(b, h, kv_idx, 0, d_idx))) * rsqrt(depth), causal_bottom_right)) *
    values(pairs(b, h, kv_idx, 1, d_idx));

struct compiled {
    compiled(const graph_ir& graph, const std::string& depths) : of{"my::latents", graph} {
        for (const generators::level& each : generators::levels())
            if (!kernel && runs(each.name))
                kernel = std::make_unique<generators::jit_kernel>(
                    generators::kernels_of({&of, 1}, {.targets = {std::string(each.name)},
                                                      .dtypes = {"f32"},
                                                      .depths = {depths},
                                                      .shapes = {"decode"}})
                        .front());
    }
    generators::variant of;
    std::unique_ptr<generators::jit_kernel> kernel;
};

/// Everything of a tensor (batch, ..., key, ..., channel) that lies behind the keys in use becomes NaN.
void spoil_behind(workload& call, const char* name, int key_axis, std::span<const std::int32_t> lengths) {
    const tensor of = call.view(name);
    auto& halves = call[name].halves;
    auto& reals = call[name].reals;
    std::vector<std::int64_t> at(static_cast<std::size_t>(of.rank()), 0);
    for (std::int64_t number = 0;; ++number) {
        std::int64_t left = number, offset = 0;
        for (int axis = of.rank() - 1; axis >= 0; --axis) {
            at[static_cast<std::size_t>(axis)] = left % of.extent(axis), left /= of.extent(axis);
            offset += at[static_cast<std::size_t>(axis)] * of.stride(axis);
        }
        if (left > 0) return;
        if (at[static_cast<std::size_t>(key_axis)] < lengths[static_cast<std::size_t>(at[0])]) continue;
        if (halves.empty())
            reals[static_cast<std::size_t>(offset)] = std::numeric_limits<float>::quiet_NaN();
        else
            halves[static_cast<std::size_t>(offset)] = 0x7fc0;
    }
}

/// Ragged lengths, NaN behind them, and numbers of queries that fill no tile.
void check(const graph_ir& graph, const std::string& depths, std::int64_t key_heads, const char* name, int key_axis,
           bool narrow = false) {
    const compiled kernel(graph, depths);
    const auto [depth, value_depth] = generators::depth_pair_from(depths);
    for (const std::int64_t queries : {1, 3, 16, 17})
        for (const std::int64_t keys : {1, 15, 129, 700}) {
            CAPTURE(depths, queries, keys);
            workload call(graph,
                          {.batches = 3,
                           .heads = 10,
                           .key_heads = key_heads,
                           .queries = queries,
                           .keys = keys,
                           .depth = depth,
                           .value_depth = value_depth},
                          7, {}, {{"of", 2}});
            if (narrow) call.convert(name, element_type::bf16);
            const std::int32_t lengths[] = {static_cast<std::int32_t>(keys), 0, static_cast<std::int32_t>(keys / 2)};
            call.set_lengths({std::begin(lengths), std::end(lengths)});
            const auto expected = call.expected();
            spoil_behind(call, name, key_axis, lengths);
            attune::detail::call(kernel.kernel->table(), call.arguments(), {.threads = 2});
            CHECK(call.largest_error(expected, "out") < 2e-5);
        }
}
}  // namespace

TEST_CASE("decode over latents agrees with the reference, whatever lies behind the keys in use", "[latents]") {
    check(ir_of<of_f32>, "96x64", 1, "rows", 1);
    check(ir_of<of_f32>, "40x24", 1, "rows", 1);  // 5 and 3 vectors of 8
    check(ir_of<of_heads>, "96x64", 2, "rows", 2);
    check(ir_of<of_bf16>, "96x64", 1, "rows", 1, true);
}

TEST_CASE("decode over keys and values side by side agrees with the reference", "[latents]") {
    check(ir_of<side_by_side>, "64", 2, "pairs", 2);
}

TEST_CASE("query heads that have the same keys read them once", "[latents]") {
    for (const graph_ir& graph : {ir_of<of_f32>, ir_of<of_heads>}) {
        const compiled kernel(graph, "96x64");
        workload call(graph, {.heads = 16, .key_heads = 1, .keys = 8192, .depth = 96, .value_depth = 64}, 3);
        const explanation said = attune::detail::explain(kernel.kernel->table(), call.arguments(), {});
        CHECK(said.key_heads == 1);
        CHECK(said.key_splits == 16);  // as many as a kernel takes, for one stack of rows; sixteen stacks would take 4
    }
}

TEST_CASE("a NaN among the values of latents reaches the queries that see it, and no others", "[latents]") {
    const compiled kernel(ir_of<of_f32>, "96x64");
    workload call(ir_of<of_f32>, {.heads = 4, .queries = 3, .keys = 300, .depth = 96, .value_depth = 64}, 3);
    call["rows"].reals[298 * 96 + 5] = std::numeric_limits<float>::quiet_NaN();  // the first query sees 298 keys
    attune::detail::call(kernel.kernel->table(), call.arguments(), {});
    const tensor out = call.view("out");
    for (std::int64_t head = 0; head < 4; ++head)
        for (std::int64_t query = 0; query < 3; ++query) {
            const float first =
                call["out"].reals[static_cast<std::size_t>(head * out.stride(1) + query * out.stride(2))];
            CHECK(std::isnan(first) == (query > 0));
        }
}
