// Caches of blocks, which hold codes beside their scale: kernels beside attention over the numbers that plain code
// makes of the bytes.
#include "../support/workload_values.hpp"
#include "tested_levels.hpp"

#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/ir/element.hpp>
#include <attune/runtime/error.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <cstring>
#include <string>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;

/// Codes of neighbouring channels in one byte, an f32 at an odd place, and room behind.
inline constexpr block_layout own{
    .channels = 16,
    .bytes = 17,
    .scale = {f32, 3},
    .codes = {.are = code_type::uint4, .at = 7, .less = 7, .order = nibble_order::neighbours},
    .minimum = {bf16, 1}};

template <block_layout K, block_layout V> struct cached {
    static constexpr auto k_cache = input<"k_cache", blocks<K>>(batch, key_head, key, depth);
    static constexpr auto v_cache = input<"v_cache", blocks<V>>(batch, key_head, key, value_depth);
    static constexpr auto read_keys = keys(k_cache(b, h, kv_idx, d_idx));
    static constexpr auto attention = softmax(mask(q * t(read_keys) * rsqrt(depth), causal_bottom_right)) * v_cache;
};
inline constexpr auto of_eight_and_four = cached<q8_0, q4_0>::attention;
inline constexpr auto with_minimum = cached<q4_1, own>::attention;
inline constexpr auto of_powers = cached<mxfp4, nvfp4>::attention;
inline constexpr auto exact = softmax(mask(q * t(k) * rsqrt(depth), causal_bottom_right)) * v;

// The same multiplied as integers, a block at a time.
template <block_layout K, block_layout V>
inline constexpr auto weights_of =
    softmax(mask(queries(quantized<i8>(q)) * t(cached<K, V>::read_keys) * rsqrt(depth), causal_bottom_right));
template <block_layout K, block_layout V> struct in_integers {
    static constexpr auto of_queries = weights_of<K, V> * cached<K, V>::v_cache;
    static constexpr auto one_digit = quantized<u8>(weights_of<K, V>) * cached<K, V>::v_cache;
    static constexpr auto two_digits = quantized<i16>(weights_of<K, V>) * cached<K, V>::v_cache;
};

/// A code of four bits through numbers of the call: NF4, and the levels of rotated caches.
inline constexpr auto coded = input<"k_cache", blocks<q4_1>>(batch, key_head, key, depth);
inline constexpr auto levels = input<"levels", f32>(axis<"level", 16>);
inline constexpr auto of_levels =
    softmax(mask(q * t(keys(levels(coded.code(b, h, kv_idx, d_idx)) * coded.scale(b, h, kv_idx, d_idx))) * rsqrt(depth),
                 causal_bottom_right)) *
    v;

/// How a block is read, by plain code: the number of a channel.
using number_of = double (*)(const std::uint8_t* block, int channel);
template <class T> double as(const std::uint8_t* at) {
    T x;
    std::memcpy(&x, at, sizeof x);
    return static_cast<double>(static_cast<float>(x));
}
int half_code(const std::uint8_t* codes, int channel, int half) {
    return codes[channel % half] >> (channel < half ? 0 : 4) & 15;
}
double e2m1(int code) {
    constexpr double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    return code < 8 ? magnitudes[code] : -magnitudes[code - 8];
}
double of_q8_0(const std::uint8_t* x, int c) { return as<float16>(x) * static_cast<std::int8_t>(x[2 + c]); }
double of_q4_0(const std::uint8_t* x, int c) { return as<float16>(x) * (half_code(x + 2, c, 16) - 8); }
double of_q4_1(const std::uint8_t* x, int c) { return as<float16>(x) * half_code(x + 4, c, 16) + as<float16>(x + 2); }
double of_mxfp4(const std::uint8_t* x, int c) { return std::exp2(x[0] - 127.0) * e2m1(half_code(x + 1, c, 16)); }
double of_nvfp4(const std::uint8_t* x, int c) { return as<float8_e4m3>(x) * e2m1(half_code(x + 1, c, 8)); }
double of_own(const std::uint8_t* x, int c) {
    return as<float>(x + 3) * ((x[7 + c / 2] >> c % 2 * 4 & 15) - 7) + as<bfloat16>(x + 1);
}

/// The bytes of a cache as engines have them, token by token, with a byte behind each; and its numbers.
struct cache {
    std::vector<std::uint8_t> bytes;
    std::vector<float> numbers;
    tensor view;

    /// `least`: of the seven scales that are drawn, in 256ths.
    cache(workload& random, const support::shape& s, const block_layout& block, number_of read, int least = -2) {
        const std::int64_t count = s.depth / block.channels, token = s.key_heads * count * block.bytes + 1,
                           sequence = s.keys * token + 2;
        bytes.resize(static_cast<std::size_t>(s.batches * sequence));
        for (std::uint8_t& x : bytes) x = static_cast<std::uint8_t>(random.random());
        for (std::int64_t b = 0; b < s.batches; ++b)
            for (std::int64_t h = 0; h < s.key_heads; ++h)
                for (std::int64_t key = 0; key < s.keys; ++key)
                    for (std::int64_t i = 0; i < count; ++i) {
                        std::uint8_t* const at = &bytes[static_cast<std::size_t>(b * sequence + key * token +
                                                                                 (h * count + i) * block.bytes)];
                        put(at, block.scale, random, least), put(at, block.minimum, random, least);
                        for (int c = 0; c < block.channels; ++c) numbers.push_back(static_cast<float>(read(at, c)));
                    }
        const std::array shape{s.batches, s.key_heads, s.keys, count, std::int64_t{block.bytes}};
        const std::array strides{sequence, count * block.bytes, token, std::int64_t{block.bytes}, std::int64_t{1}};
        view = tensor(bytes.data(), shape, strides);
    }
    static void put(std::uint8_t* at, const block_number& number, workload& random, int least) {
        const float x = static_cast<float>(static_cast<int>(random.random() % 7) + least) / 256;
        const auto store = [&](auto y) { std::memcpy(at + number.at, &y, sizeof y); };
        if (number.element == f16) store(float16(x));
        if (number.element == bf16) store(bfloat16(x));
        if (number.element == f32) store(x);
        if (number.element == f8_e4m3) store(float8_e4m3(x));
        if (number.element == u8) store(static_cast<std::uint8_t>(120 + random.random() % 5));
    }
};

struct pair_of_layouts {
    graph_ir graph;
    block_layout k, v;
    number_of of_k, of_v;
};
const pair_of_layouts layouts[] = {{ir_of<of_eight_and_four>, q8_0, q4_0, of_q8_0, of_q4_0},
                                   {ir_of<with_minimum>, q4_1, own, of_q4_1, of_own},
                                   {ir_of<of_powers>, mxfp4, nvfp4, of_mxfp4, of_nvfp4}};

generators::listed_kernel listed(const generators::variant& of, std::string_view level, const std::string& shapes,
                                 const std::string& depth = "64") {
    return generators::kernels_of(
               {&of, 1}, {.targets = {std::string(level)}, .dtypes = {"f32"}, .depths = {depth}, .shapes = {shapes}})
        .front();
}

/// The largest error of a kernel, of sequences of all keys, of none and of some.
double largest_error(const generators::jit_kernel& kernel, const pair_of_layouts& of, const support::shape& s) {
    workload call(of.graph, s, 5), plain(ir_of<exact>, s, 5);
    const cache k(call, s, of.k, of.of_k), v(call, s, of.v, of.of_v);
    call["k_cache"].view = k.view, call["v_cache"].view = v.view;
    plain["q"].reals = call["q"].reals;
    plain.put("k", k.numbers), plain.put("v", v.numbers);
    const std::vector<std::int32_t> lengths{static_cast<std::int32_t>(s.keys), 0,
                                            1 + static_cast<std::int32_t>(s.keys) / 2};
    call.set_lengths(lengths), plain.set_lengths(lengths);
    attune::detail::call(kernel.table(), call.arguments(), {.threads = 2});
    return std::max(call.largest_error(plain.expected(), "out"), call.largest_error(call.expected(), "out"));
}

support::shape shape_of(std::int64_t queries, std::int64_t keys) {
    return {.batches = 3, .heads = 4, .key_heads = 2, .queries = queries, .keys = keys, .depth = 64, .value_depth = 64};
}

void check(const pair_of_layouts& of, std::string_view level, const std::string& shapes) {
    const generators::variant made{"my::cache", of.graph};
    const generators::jit_kernel kernel(listed(made, level, shapes));
    CAPTURE(of.graph.text, level, shapes);
    for (const auto& [queries, keys] : {std::pair(1, 131), {3, 70}, {1, 5}}) {
        CAPTURE(queries, keys);
        CHECK(largest_error(kernel, of, shape_of(shapes == "prefill" ? queries + 20 : queries, keys)) < 2e-5);
    }
}

std::string refusal_of(const generators::jit_kernel& kernel, workload& call) {
    try {
        attune::detail::call(kernel.table(), call.arguments(), {});
    } catch (const error& refused) {
        return refused.what();
    }
    return "none";
}

}  // namespace

TEST_CASE("blocks of codes beside their scale are read as they lie", "[blocks]") {
    const std::string_view level = testing::tested_levels().front().name;
    check(layouts[0], level, "prefill");
    check(layouts[1], level, "decode");
}

TEST_CASE("blocks are read on every level, in decode and in prefill", "[.long]") {
    for (const generators::level& level : testing::tested_levels())
        for (const pair_of_layouts& each : layouts)
            for (const char* const shapes : {"decode", "prefill"}) check(each, level.name, shapes);
}

namespace {

/// The largest error beside the reference, which rounds queries as the formula says and weights not at all. Where a
/// scale of values is below 0, kernels round no weights, either.
double error_of_integers(const graph_ir& graph, const block_layout& k, const block_layout& v, std::string_view level,
                         int least = 1) {
    const generators::variant made{"my::cache", graph};
    const generators::jit_kernel kernel(listed(made, level, "decode"));
    double largest = 0;
    for (const auto& [queries, keys] : {std::pair(1, 131), {3, 70}, {1, 5}}) {
        const support::shape s = shape_of(queries, keys);
        workload call(graph, s, 5);
        const cache of_k(call, s, k, of_q8_0, least), of_v(call, s, v, of_q8_0, least);
        call["k_cache"].view = of_k.view, call["v_cache"].view = of_v.view;
        call.set_lengths({keys, 0, 1 + keys / 2});
        attune::detail::call(kernel.table(), call.arguments(), {.threads = 2});
        largest = std::max(largest, call.largest_error(call.expected(), "out"));
    }
    return largest;
}

template <block_layout K, block_layout V> void check_integers(std::string_view level) {
    using of = in_integers<K, V>;
    CAPTURE(level, ir_of<of::one_digit>.text);
    CHECK(error_of_integers(ir_of<of::of_queries>, K, V, level) < 4e-5);
    CHECK(error_of_integers(ir_of<of::one_digit>, K, V, level) < 2e-2);
    CHECK(error_of_integers(ir_of<of::two_digits>, K, V, level) < 2e-4);
    if (V.scale.element == f16) CHECK(error_of_integers(ir_of<of::one_digit>, K, V, level, -6) < 4e-5);
}

}  // namespace

TEST_CASE("codes of blocks are multiplied as integers", "[blocks]") {
    const std::string_view level = testing::tested_levels().front().name;
    CHECK(error_of_integers(ir_of<in_integers<q8_0, q4_0>::one_digit>, q8_0, q4_0, level) < 2e-2);
}

TEST_CASE("codes of blocks are multiplied as integers on every level", "[.long]") {
    for (const generators::level& level : testing::tested_levels()) {
        check_integers<q8_0, q4_0>(level.name);
        check_integers<q4_0, q8_0>(level.name);
        check_integers<mxfp4, mxfp4>(level.name);
        check_integers<nvfp4, nvfp4>(level.name);
    }
}

TEST_CASE("codes of blocks stand for numbers that a call passes", "[.long]") {
    const generators::variant made{"my::levels", ir_of<of_levels>};
    const generators::jit_kernel kernel(listed(made, testing::tested_levels().front().name, "decode"));
    const support::shape s = shape_of(2, 77);
    workload call(ir_of<of_levels>, s, 5), plain(ir_of<exact>, s, 5);
    cache k(call, s, q4_1, of_q4_1);
    const auto number = [&](const std::uint8_t* at, int c) {
        return as<float16>(at) *
               static_cast<double>(call["levels"].reals[static_cast<std::size_t>(half_code(at + 4, c, 16))]);
    };
    for (std::int64_t i = 0, n = 0; i < s.batches * s.key_heads * s.keys * 2; ++i)
        for (int c = 0; c < 32; ++c, ++n) {
            const std::int64_t row = i / 2, key = row % s.keys, head = row / s.keys % s.key_heads,
                               of = row / s.keys / s.key_heads;
            const std::uint8_t* const at = k.bytes.data() + of * k.view.stride(0) + head * k.view.stride(1) +
                                           key * k.view.stride(2) + i % 2 * k.view.stride(3);
            k.numbers[static_cast<std::size_t>(n)] = static_cast<float>(number(at, c));
        }
    call["k_cache"].view = k.view;
    for (const char* const same : {"q", "v"}) plain[same].reals = call[same].reals;
    plain.put("k", k.numbers);
    attune::detail::call(kernel.table(), call.arguments(), {.threads = 2});
    CHECK(call.largest_error(plain.expected(), "out") < 2e-5);
}

TEST_CASE("calls refuse blocks of another layout", "[blocks]") {
    const generators::variant made{"my::cache", ir_of<of_eight_and_four>};
    const std::string level(testing::tested_levels().front().name);
    const generators::jit_kernel kernel(listed(made, level, "decode"));
    workload call(ir_of<of_eight_and_four>, shape_of(1, 9), 5);
    std::vector<std::uint8_t> bytes(3 * 2 * 9 * 3 * 40);
    const auto refused = [&](tensor view) {
        call["k_cache"].view = view;
        return refusal_of(kernel, call);
    };
    using Catch::Matchers::ContainsSubstring;
    CHECK(refused({bytes.data(), {3, 2, 9, 2, 34}}) == "none");
    CHECK_THAT(refused({bytes.data(), {3, 2, 9, 2, 36}}),
               ContainsSubstring("expected 34 elements along byte of k_cache, got"));
    CHECK_THAT(refused({bytes.data(), {3, 2, 9, 3, 34}}),
               ContainsSubstring("expected blocks of 32 channels for each of the 64 along depth"));
    CHECK_THAT(refused({bytes.data(), {3, 2, 9, 68}}),
               ContainsSubstring("expected k_cache with 5 axes (batch, key_head, key, block, byte)"));
    CHECK_THAT(refused({bytes.data(), {3, 2, 9, 2, 34}, {1296, 648, 72, 36, 1}}),
               ContainsSubstring("expected a stride of 34 along block of k_cache, whose blocks lie side by side"));
    CHECK_THAT(refused({reinterpret_cast<std::int8_t*>(bytes.data()), {3, 2, 9, 2, 34}}),
               ContainsSubstring("expected u8 elements in k_cache"));
    CHECK_THAT(refused({bytes.data(), {3, 2, 9, 2, 34}, {2448, 1224, 136, 68, 2}}),
               ContainsSubstring("a stride of 1 along byte of k_cache"));
    CHECK_THROWS_WITH(generators::jit_kernel(listed(made, level, "decode", "80")),
                      ContainsSubstring("`k_cache` has blocks of 32 channels, of which 80 is no multiple"));
}
