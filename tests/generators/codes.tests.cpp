// Decode over caches of codes, multiplied as integers where the level can: compiled in process, against the reference,
// which rounds queries as the formula says and weights not at all.
#include "assembly.hpp"
#include "tested_levels.hpp"

#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <limits>
#include <string>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;

inline constexpr auto k8 = input<"k8", i8>(batch, key_head, key, depth);
inline constexpr auto v8 = input<"v8", i8>(batch, key_head, key, value_depth);
inline constexpr auto k_scale = input<"k_scale", f32>(batch, key_head, key);
inline constexpr auto v_scale = input<"v_scale", f32>(batch, key_head, key);
inline constexpr auto cached_keys = keys(k8(b, h, kv_idx, d_idx) * (0.01 * k_scale(b, h, kv_idx)));
inline constexpr auto cached_values = values(v8(b, h, kv_idx, d_idx) * (0.01 * v_scale(b, h, kv_idx)));
inline constexpr auto hidden = mask(queries(quantized<i8>(q)) * t(cached_keys) * rsqrt(depth), causal_bottom_right);
inline constexpr auto of_queries = softmax(hidden) * cached_values;
inline constexpr auto one_digit = quantized<u8>(softmax(hidden)) * cached_values;
inline constexpr auto two_digits = quantized<i16>(softmax(hidden)) * cached_values;

// Codes that are made of bytes in other ways, and queries that come as codes.
inline constexpr auto unsigned_k = input<"k8", u8>(batch, key_head, key, depth);
inline constexpr auto q_codes = input<"q_codes", i8>(batch, head, query, depth);
inline constexpr auto q_scale = input<"q_scale", f32>(batch, head, query);
inline constexpr auto from_outside = softmax(queries(q_codes(b, h, q_idx, d_idx) * q_scale(b, h, q_idx)) *
                                             t(keys(as_real(unsigned_k(b, h, kv_idx, d_idx) - 128) * 0.01))) *
                                     v;

generators::listed_kernel listed(const generators::variant& of, const std::string& level, const std::string& depths) {
    return generators::kernels_of({&of, 1},
                                  {.targets = {level}, .dtypes = {"f32"}, .depths = {depths}, .shapes = {"decode"}})
        .front();
}

struct shape {
    std::int64_t heads, key_heads, queries, keys;
};

/// The largest error of an output, of calls with a full sequence, an empty one and one of half the keys with garbage
/// behind them.
double largest_error(const generators::jit_kernel& kernel, const graph_ir& graph, const shape& s, double scale = 1) {
    workload call(graph,
                  {.batches = 3,
                   .heads = s.heads,
                   .key_heads = s.key_heads,
                   .queries = s.queries,
                   .keys = s.keys,
                   .depth = 64,
                   .value_depth = 64},
                  5);
    for (const char* const codes : {"k8", "v8"}) call.draw(codes, 0, 255);
    call.scale_by("v_scale", static_cast<float>(scale));
    const auto some = static_cast<std::int32_t>((s.keys + s.queries) / 2);
    call.set_lengths({static_cast<std::int32_t>(s.keys), 0, some});
    const auto expected = call.expected();
    for (const char* const name : {"k_scale", "v_scale"}) {
        const tensor of = call.view(name);
        auto* const at = call[name].reals.data();
        for (std::int64_t head = 0; head < s.key_heads; ++head)
            for (std::int64_t key = some; key < s.keys; ++key)
                at[2 * of.stride(0) + head * of.stride(1) + key * of.stride(2)] =
                    std::numeric_limits<float>::quiet_NaN();
    }
    attune::detail::call(kernel.table(), call.arguments(), {.threads = 2});
    return call.largest_error(expected, "out");
}

}  // namespace

TEST_CASE("decode with quantised queries and weights keeps to its bounds, on every level", "[codes]") {
    for (const generators::level& level : testing::tested_levels()) {
        if (level.is_gpu || !runs(level.name)) continue;
        for (const auto& [graph, bound] :
             {std::pair(ir_of<of_queries>, 4e-5), {ir_of<two_digits>, 2e-4}, {ir_of<one_digit>, 2e-2}}) {
            const generators::variant of{"my::cache", graph};
            const generators::jit_kernel kernel(listed(of, std::string(level.name), "64"));
            for (const shape& s : {shape{4, 1, 1, 700}, {2, 2, 1, 130}, {10, 2, 3, 257}, {4, 2, 2, 5}}) {
                CAPTURE(level.name, bound, s.heads, s.queries, s.keys);
                CHECK(largest_error(kernel, graph, s) < bound);
                CHECK(largest_error(kernel, graph, s, -1) < bound);  // weights that are negative
            }
        }
    }
}

TEST_CASE("queries that are passed as codes are multiplied as integers, exactly", "[codes]") {
    const generators::variant of{"my::cache", ir_of<from_outside>};
    for (const generators::level& level : testing::tested_levels()) {
        if (level.is_gpu || !runs(level.name)) continue;
        const generators::jit_kernel kernel(listed(of, std::string(level.name), "64"));
        workload call(of.graph, {.batches = 2, .heads = 6, .key_heads = 2, .keys = 300, .depth = 64, .value_depth = 64},
                      7);
        call.draw("k8", 0, 255), call.draw("q_codes", 0, 255);
        call.scale_by("q_scale", 0.01f);
        attune::detail::call(kernel.table(), call.arguments(), {.threads = 2});
        CHECK(call.largest_error(call.expected(), "out") < 2e-5);
    }
}

TEST_CASE("levels with an instruction for products of bytes use it where both factors are codes", "[codes]") {
    const auto products = [](const graph_ir& graph) {
        return count_of("vpdpbusd", assembly_of_decode(graph, "x86-64-v4-bf16"));
    };
    CHECK(products(ir_of<of_queries>) > 0);
    CHECK(products(ir_of<from_outside>) > 0);
    CHECK(products(ir_of<one_digit>) > products(ir_of<of_queries>));
    CHECK(products(ir_of<two_digits>) > products(ir_of<of_queries>));
    static constexpr auto plain_queries = softmax(q * t(cached_keys)) * cached_values;
    CHECK(products(ir_of<plain_queries>) == 0);
}
