// Decode and prefill over caches of codes, multiplied as integers where the level can: compiled in process, against the
// reference, which rounds queries as the formula says and weights not at all.
#include "../support/workload_values.hpp"
#include "assembly.hpp"
#include "tested_levels.hpp"

#include "kernel/cpu_schedule.hpp"
#include "plans/kernel_plan.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

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

// Four bits, two codes in a byte: those of the first half of a row below those of the second.
inline constexpr auto k4 = input<"k8", u8>(batch, key_head, key, axis<"byte">);
inline constexpr auto v4 = input<"v8", u8>(batch, key_head, key, axis<"byte">);
constexpr auto nibble = [](auto codes, auto half) {
    const auto low = d_idx < half;
    return ((codes(b, h, kv_idx, where(low, d_idx, d_idx - half)) >> where(low, 0, 4)) & 15) - 8;
};
inline constexpr auto packed_keys = keys(as_real(nibble(k4, depth / 2)) * (0.1 * k_scale(b, h, kv_idx)));
inline constexpr auto packed_values = values(as_real(nibble(v4, value_depth / 2)) * (0.1 * v_scale(b, h, kv_idx)));
inline constexpr auto packed_weights =
    softmax(mask(queries(quantized<i8>(q)) * t(packed_keys) * rsqrt(depth), causal_bottom_right));
inline constexpr auto packed = packed_weights * packed_values;
inline constexpr auto packed_one_digit = quantized<u8>(packed_weights) * packed_values;
inline constexpr auto packed_two_digits = quantized<i16>(packed_weights) * packed_values;

generators::listed_kernel listed(const generators::variant& of, const std::string& level, const std::string& depths,
                                 const std::string& shapes = "decode") {
    return generators::kernels_of({&of, 1},
                                  {.targets = {level}, .dtypes = {"f32"}, .depths = {depths}, .shapes = {shapes}})
        .front();
}

/// The least demanding of the levels that are tested.
std::string lowest() { return std::string(testing::tested_levels().back().name); }

/// Prefill on this machine as levels with such products have it, whose instructions need not be there.
struct prefill_of_codes {
    prefill_of_codes(const generators::variant& of, const std::string& depths, generators::integer_products integers,
                     bool in_tiles = false)
        : kernel(listed(of, lowest(), depths, "prefill")) {
        as_if = *kernel.request.target;
        as_if.integers = integers;
        kernel.request.target = &as_if;
        kernel.request.schedule =
            in_tiles ? generators::default_cpu_prefill(as_if, kernel.request.depths, kernel.request.facts->hides,
                                                       generators::bytes_of_tile)
                     : generators::default_prefill(kernel.request);
    }
    prefill_of_codes(const prefill_of_codes&) = delete;

    generators::level as_if;
    generators::listed_kernel kernel;
};

struct shape {
    std::int64_t heads, key_heads, queries, keys, depth = 64, value_depth = 64;
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
                   .depth = s.depth,
                   .value_depth = s.value_depth},
                  5, {}, {{"byte", 32}});
    for (const char* const codes : {"k8", "v8"}) call.draw(codes, 0, 255);
    scale_by(call, "v_scale", static_cast<float>(scale));
    const auto some = static_cast<std::int32_t>(std::min((s.keys + s.queries) / 2, s.keys));
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

void check_decode(const graph_ir& graph, const std::string& level, double bound) {
    const generators::variant of{"my::cache", graph};
    const generators::jit_kernel kernel(listed(of, level, "64"));
    for (const shape& s : {shape{4, 1, 1, 700}, {2, 2, 1, 130}, {10, 2, 3, 257}, {4, 2, 2, 5}}) {
        CAPTURE(level, bound, s.heads, s.queries, s.keys);
        CHECK(largest_error(kernel, graph, s) < bound);
        CHECK(largest_error(kernel, graph, s, -1) < bound);  // weights that are negative
    }
}

}  // namespace

TEST_CASE("decode with quantised queries and weights keeps to its bounds", "[codes]") {
    const std::string level(testing::tested_levels().front().name);
    for (const auto& [graph, bound] : {std::pair(ir_of<two_digits>, 2e-4), {ir_of<packed_one_digit>, 2e-2}})
        check_decode(graph, level, bound);
    check_decode(ir_of<one_digit>, lowest(), 2e-2);
}

TEST_CASE("decode with queries and weights quantised in any way keeps to its bounds, on every level",
          "[codes][.long]") {
    for (const generators::level& level : generators::levels()) {
        if (level.is_gpu || !runs(level.name)) continue;
        for (const auto& [graph, bound] : {std::pair(ir_of<of_queries>, 4e-5),
                                           {ir_of<two_digits>, 2e-4},
                                           {ir_of<one_digit>, 2e-2},
                                           {ir_of<packed>, 4e-5},
                                           {ir_of<packed_two_digits>, 2e-4},
                                           {ir_of<packed_one_digit>, 2e-2}})
            check_decode(graph, std::string(level.name), bound);
    }
}

namespace {

void check_prefill_of_one_digit(bool in_tiles) {
    const generators::variant of{"my::cache", ir_of<one_digit>};
    const prefill_of_codes made(of, "64", generators::integer_products::of_bytes, in_tiles);
    CHECK(generators::multiplies_codes(made.kernel.request.schedule));
    const generators::jit_kernel kernel(made.kernel);
    for (const shape& s : {shape{4, 2, 67, 301}, {2, 1, 17, 5}}) {
        CAPTURE(in_tiles, s.heads, s.queries, s.keys);
        CHECK(largest_error(kernel, of.graph, s) < 4e-2);      // of rows that see few keys
        CHECK(largest_error(kernel, of.graph, s, -1) < 4e-5);  // scales that are negative: weights are not rounded
    }
}

}  // namespace

TEST_CASE("prefill with quantised queries and weights keeps to the same bounds", "[codes]") {
    check_prefill_of_one_digit(false);
}

TEST_CASE("prefill multiplies words of 16 bits where bytes do not hold a pair, and weights in i16", "[codes]") {
    const generators::variant of{"my::cache", ir_of<two_digits>};
    const prefill_of_codes made(of, "64", generators::integer_products::of_words);
    CHECK(generators::multiplies_codes(made.kernel.request.schedule));
    const generators::jit_kernel kernel(made.kernel);
    for (const shape& s : {shape{4, 2, 67, 301}, {2, 1, 17, 5}}) {
        CAPTURE(s.heads, s.queries, s.keys);
        CHECK(largest_error(kernel, of.graph, s) < 4e-4);
        CHECK(largest_error(kernel, of.graph, s, -1) < 4e-5);  // scales that are negative: weights are not rounded
    }
}

TEST_CASE("the same by tiles of bytes, as plain loops make them", "[codes][.long]") {
    check_prefill_of_one_digit(true);
}

TEST_CASE("prefill multiplies codes of any formula, by the instructions of every level", "[codes][.long]") {
    for (const auto& [graph, depths, bound] : {std::tuple(ir_of<of_queries>, "64", 4e-5),
                                               {ir_of<one_digit>, "80x48", 4e-2},
                                               {ir_of<one_digit>, "64x80", 4e-2},
                                               {ir_of<one_digit>, "64x96", 4e-2},
                                               {ir_of<two_digits>, "80x48", 4e-4},
                                               {ir_of<packed>, "64", 4e-5},
                                               {ir_of<packed_one_digit>, "64", 4e-2}}) {
        const generators::variant of{"my::cache", graph};
        for (const generators::level& level : generators::levels()) {
            if (level.is_gpu || !runs(level.name)) continue;
            const generators::jit_kernel kernel(listed(of, std::string(level.name), depths, "prefill"));
            const auto [depth, value_depth] = generators::depth_pair_from(depths);
            for (const shape& s : {shape{4, 1, 67, 700, depth, value_depth},
                                   {2, 2, 200, 130, depth, value_depth},
                                   {10, 2, 33, 257, depth, value_depth},
                                   {4, 2, 20, 5, depth, value_depth}}) {
                CAPTURE(level.name, depths, bound, s.heads, s.queries, s.keys);
                CHECK(largest_error(kernel, graph, s) < bound);
                CHECK(largest_error(kernel, graph, s, -1) < bound);
            }
        }
    }
}

TEST_CASE("codes of four bits are multiplied at depths that are no powers of two", "[codes]") {
    const generators::variant of{"my::cache", ir_of<packed_one_digit>};
    for (const auto& [depth, value_depth] : {std::pair(96, 96), {48, 80}, {64, 48}}) {
        const std::string depths = std::to_string(depth) + "x" + std::to_string(value_depth);
        CAPTURE(depths);
        workload call(
            of.graph,
            {.batches = 2, .heads = 10, .key_heads = 2, .keys = 300, .depth = depth, .value_depth = value_depth}, 9, {},
            {{"byte", std::max(depth, value_depth) / 2}});
        for (const char* const codes : {"k8", "v8"}) call.draw(codes, 0, 255);
        const generators::jit_kernel kernel(listed(of, std::string(testing::tested_levels().front().name), depths));
        attune::detail::call(kernel.table(), call.arguments(), {.threads = 2});
        CHECK(call.largest_error(call.expected(), "out") < 2e-2);
    }
}

TEST_CASE("what codes are multiplied by follows their range and the level", "[codes]") {
    static constexpr auto below = [](auto number) {  // codes of -number to number
        constexpr int most = decltype(number)::value;
        return queries(quantized<i8>(q)) * t(keys(as_real(clamp(k8(b, h, kv_idx, d_idx), -most, most)))) * 0.01;
    };
    static constexpr auto weighed = [](auto weights, auto number) {
        constexpr int most = decltype(number)::value;
        return weights * values(as_real(clamp(v8(b, h, kv_idx, d_idx), -most, most)));
    };
    using std::integral_constant;
    static constexpr auto at_64 =
        weighed(quantized<u8>(softmax(below(integral_constant<int, 64>{}))), integral_constant<int, 64>{});
    static constexpr auto at_65 =
        weighed(quantized<u8>(softmax(below(integral_constant<int, 65>{}))), integral_constant<int, 65>{});
    static constexpr auto finer =
        weighed(quantized<i16>(softmax(below(integral_constant<int, 7>{}))), integral_constant<int, 7>{});
    const auto products = [](const graph_ir& graph, const std::string& level, int key_block,
                             const std::string& shapes = "decode") {
        const generators::variant of{"my::cache", graph};
        generators::kernel_request request = listed(of, level, "64", shapes).request;
        if (auto* decode = std::get_if<generators::cpu_decode>(&request.schedule))
            decode->key_block = key_block;
        else
            std::get<generators::cpu_prefill>(request.schedule).key_block = key_block;
        const generators::kernel_plan plan = generators::plan_kernel(request);
        const generators::key_pass& pass = plan.pass_of(0);
        return std::pair(generators::integers_at_a_time(pass.scores.how),
                         generators::integers_at_a_time(pass.values->how));
    };
    for (const char* const level : {"x86-64-v3", "x86-64-v4"}) {
        CHECK(products(ir_of<at_64>, level, 128) == std::pair(4, 4));  // 2 x 127 x 128 and 2 x 255 x 64 fit 16 bits
        CHECK(products(ir_of<at_65>, level, 128) == std::pair(2, 2));
        CHECK(products(ir_of<finer>, level, 128) == std::pair(4, 2));
        CHECK(products(ir_of<two_digits>, level, 512) == std::pair(2, 2));  // 512 x 32767 x 128 fits 32 bits
        CHECK(products(ir_of<two_digits>, level, 1024) == std::pair(2, 0));
        CHECK(products(ir_of<at_64>, level, 128, "prefill") == std::pair(4, 4));
        CHECK(products(ir_of<at_65>, level, 128, "prefill") == std::pair(2, 2));
        CHECK(products(ir_of<finer>, level, 128, "prefill") == std::pair(4, 2));
        CHECK(products(ir_of<two_digits>, level, 1024, "prefill") == std::pair(2, 0));
    }
    for (const char* const level : {"x86-64-v4-bf16", "x86-64-v4-amx"}) {
        CHECK(products(ir_of<at_65>, level, 128, "prefill") == std::pair(4, 4));
        CHECK(products(ir_of<two_digits>, level, 512, "prefill") == std::pair(4, 2));
    }
    CHECK(products(ir_of<at_64>, "x86-64-v2", 128, "prefill") == std::pair(0, 0));
    CHECK(products(ir_of<at_65>, "x86-64-v4-bf16", 128) == std::pair(4, 4));
    CHECK(products(ir_of<two_digits>, "x86-64-v4-bf16", 1024) == std::pair(4, 4));
    CHECK(products(ir_of<at_64>, "x86-64-v2", 128) == std::pair(0, 0));
    CHECK(products(ir_of<at_64>, "aarch64", 128) == std::pair(0, 0));
}

TEST_CASE("queries that are passed as codes are multiplied as integers, exactly", "[codes]") {
    const generators::variant of{"my::cache", ir_of<from_outside>};
    for (const generators::level& level : testing::tested_levels()) {
        const generators::jit_kernel kernel(listed(of, std::string(level.name), "64"));
        workload call(of.graph, {.batches = 2, .heads = 6, .key_heads = 2, .keys = 300, .depth = 64, .value_depth = 64},
                      7);
        call.draw("k8", 0, 255), call.draw("q_codes", 0, 255);
        scale_by(call, "q_scale", 0.01f);
        attune::detail::call(kernel.table(), call.arguments(), {.threads = 2});
        CHECK(call.largest_error(call.expected(), "out") < 2e-5);
    }
}

TEST_CASE("every level above the lowest multiplies codes by its instructions for integers", "[codes][.long]") {
    static constexpr auto plain_queries = softmax(q * t(cached_keys)) * cached_values;
    struct found {
        std::string level, of_bytes, of_nibbles;
    };
    for (const found& each : {found{"x86-64-v4-amx", "vpdpbusd", "vpdpbusd"},
                              {"x86-64-v4-bf16", "vpdpbusd", "vpdpbusd"},
                              {"x86-64-v4", "vpmaddwd", "vpmaddubsw"},
                              {"x86-64-v3", "vpmaddwd", "vpmaddubsw"}}) {
        const auto products = [&](const graph_ir& graph, const std::string& instruction) {
            return count_of(instruction, assembly_of_decode(graph, each.level));
        };
        CAPTURE(each.level);
        const int of_scores = products(ir_of<of_queries>, each.of_bytes);
        CHECK(of_scores > 0);
        CHECK(products(ir_of<from_outside>, each.of_bytes) > 0);
        CHECK(products(ir_of<one_digit>, each.of_bytes) > of_scores);
        CHECK(products(ir_of<two_digits>, each.of_bytes) > of_scores);
        const int of_packed = products(ir_of<packed>, each.of_nibbles);
        CHECK(of_packed > 0);
        CHECK(products(ir_of<packed_one_digit>, each.of_nibbles) > of_packed);
    }
    CHECK(count_of("vpdpbusd", assembly_of_decode(ir_of<plain_queries>, "x86-64-v4-bf16")) == 0);
    CHECK(count_of("vpmaddwd", assembly_of(ir_of<two_digits>, "x86-64-v3", "prefill")) > 0);
    CHECK(count_of("vpmaddubsw", assembly_of(ir_of<packed_one_digit>, "x86-64-v3", "prefill")) > 0);
    const std::string words_beside_bytes = assembly_of(ir_of<two_digits>, "x86-64-v4-bf16", "prefill");
    CHECK(count_of("vpdpbusd", words_beside_bytes) > 0);
    CHECK(count_of("vpdpwssd", words_beside_bytes) > 0);
}

TEST_CASE("codes of four bits are interleaved by a few instructions", "[codes]") {
    // LLVM alone blends bytes one by one.
    CHECK(count_of("vpblendvb", assembly_of_decode(ir_of<packed_one_digit>, "x86-64-v3")) < 20);
    CHECK(count_of("vpermt2b", assembly_of_decode(ir_of<packed_one_digit>, "x86-64-v4-bf16")) < 50);
}
