// Calls that store their new keys and values in a cache, and read it: compiled in process, against the reference.
#include "../gpu/stores.hpp"
#include "kernel/kernel_list.hpp"
#include "lower.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/detail/operation.hpp>
#include <attune/runtime/error.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;

using namespace ::stored;

/// The place is counted: how many tokens before it are kept.
inline constexpr auto is_kept = input<"is_kept", i32>(batch, axis<"token">);
inline constexpr auto counted = outputs(
    store(k(b, h, sum(n, extent<1>(is_kept), where(n < q_idx, is_kept(b, n), 0)), d_idx), k_new(b, h, q_idx, d_idx)),
    out = softmax(masked) * v);

/// A kernel for the first level that this machine runs.
struct compiled {
    compiled(const graph_ir& graph, const char* shapes, const char* types = "f32") : of{"my::step", graph} {
        for (const generators::level& each : generators::levels())
            if (!kernel && runs(each.name))
                kernel = std::make_unique<generators::jit_kernel>(
                    generators::kernels_of({&of, 1}, {.targets = {std::string(each.name)},
                                                      .dtypes = {types},
                                                      .depths = {"64x32"},
                                                      .shapes = {shapes}})
                        .front());
    }
    generators::variant of;
    std::unique_ptr<generators::jit_kernel> kernel;
};

/// The places of the new keys hold NaN before the call: what reads them before they are written spoils its rows.
void spoil_places(workload& call, const char* cache, std::span<const std::int32_t> lengths, std::int64_t queries) {
    const tensor of = call.view(cache);
    for (std::int64_t b = 0; b < of.extent(0); ++b)
        for (std::int64_t head = 0; head < of.extent(1); ++head)
            for (std::int64_t key = lengths[static_cast<std::size_t>(b)] - queries;
                 key < lengths[static_cast<std::size_t>(b)]; ++key)
                for (std::int64_t d = 0; d < of.extent(3); ++d)
                    call[cache].reals[static_cast<std::size_t>(b * of.stride(0) + head * of.stride(1) +
                                                               key * of.stride(2) + d)] =
                        std::numeric_limits<float>::quiet_NaN();
}

}  // namespace

TEST_CASE("a call stores its keys and values and reads them", "[stores]") {
    for (const char* const shapes : {"decode", "prefill"}) {
        const compiled kernel(ir_of<step>, shapes);
        for (const std::int64_t queries : {1, 3, 37, 130}) {  // of the last, threads share the stores
            CAPTURE(shapes, queries);
            workload call(kernel.of.graph,
                          {.batches = 3,
                           .heads = 4,
                           .key_heads = 2,
                           .queries = queries,
                           .keys = 261,
                           .depth = 64,
                           .value_depth = 32},
                          5);
            const std::vector<std::int32_t> lengths{261, static_cast<std::int32_t>(queries), 140};
            spoil_places(call, "k", lengths, queries), spoil_places(call, "v", lengths, queries);
            call.set_lengths(lengths);
            const auto expected = call.expected();
            attune::detail::call(kernel.kernel->table(), call.arguments(), {.threads = 2});
            for (const char* const name : {"out", "lse"}) CHECK(call.largest_error(expected, name) < 2e-5);
            for (const char* const name : {"k", "v"}) CHECK(call.largest_error(expected, name) == 0);
            CHECK(std::isfinite(call.largest_error(expected, "out")));
        }
    }
}

TEST_CASE("keys are normalised, rotated and rounded as they are stored in pages", "[stores]") {
    for (const char* const shapes : {"decode", "prefill"}) {
        const compiled kernel(ir_of<paged>, shapes);
        for (const std::int64_t queries : {1, 5, 40}) {
            CAPTURE(shapes, queries);
            workload call(kernel.of.graph,
                          {.batches = 2,
                           .heads = 4,
                           .key_heads = 2,
                           .queries = queries,
                           .keys = 160,
                           .depth = 64,
                           .value_depth = 32},
                          6, {}, {{"page", 22}, {"block", 10}, {"token", 16}, {"byte", 16}, {"pair", 32}});
            for (std::int32_t i = 0; i < 20; ++i) call["page_of"].integers[static_cast<std::size_t>(i)] = 21 - i;
            call.set_lengths({130, static_cast<std::int32_t>(queries)});
            const std::vector<float> scales_before = call["k_scale"].reals;
            const auto expected = call.expected();
            attune::detail::call(kernel.kernel->table(), call.arguments(), {.threads = 2});
            CHECK(call.largest_error(expected, "k_scale") < 1e-6);
            CHECK(call.largest_error(expected, "v4") == 0);
            CHECK(call.largest_error(expected, "k8") <= 1);  // a half may be rounded to either side
            CHECK(call.largest_error(expected, "out") < 2e-2);
            // Nothing but the places of the new keys has changed.
            std::size_t changed = 0;
            for (std::size_t i = 0; i < scales_before.size(); ++i)
                changed += call["k_scale"].reals[i] != scales_before[i];
            CHECK(changed == static_cast<std::size_t>(2 * 2 * queries));
        }
    }
}

namespace {

/// A call of one query in each of two sequences, as a test changes it.
struct small_call {
    workload call{
        ir_of<step>, {.batches = 2, .heads = 2, .key_heads = 2, .keys = 9, .depth = 64, .value_depth = 32}, 7};
    std::vector<attune::detail::named_argument> arguments;

    explicit small_call(std::vector<std::int32_t> lengths = std::vector{9, 4}) {
        call.set_lengths(std::move(lengths));
        arguments = call.arguments();
    }
    tensor& operator[](std::string_view name) {
        return std::ranges::find(arguments, name, &attune::detail::named_argument::name)->view;
    }
    std::string refusal(const kernel_table& kernels) {
        const auto before = call["k"].reals, out_before = call["out"].reals;
        std::string said;
        try {
            attune::detail::call(kernels, arguments, {});
        } catch (const attune::error& caught) {
            said = caught.what();
        }
        CHECK(std::memcmp(before.data(), call["k"].reals.data(), before.size() * sizeof(float)) == 0);
        CHECK(std::memcmp(out_before.data(), call["out"].reals.data(), out_before.size() * sizeof(float)) == 0);
        return said;
    }
};

}  // namespace

TEST_CASE("what cannot be stored is refused before anything is written", "[stores]") {
    const compiled kernel(ir_of<step>, "decode");
    const kernel_table& kernels = kernel.kernel->table();
    {  // a new key without a place
        small_call of({9, 0});
        CHECK(
            of.refusal(kernels) ==
            "attune: expected q_idx + (kv_lengths(b) - query_length) from 0 to 0, the keys in use, an index along key "
            "of k, got -1 at (b 1, q_idx 0); try a place in k for all that is stored; kv_lengths count the new keys");
    }
    {
        small_call of;
        const tensor writable = of["k"];
        of["k"] =
            tensor(writable.type(), static_cast<const void*>(writable.data()), writable.shape(), writable.strides());
        CHECK(of.refusal(kernels) ==
              "attune: expected a tensor that may be written for k, got a view of const "
              "elements; try a pointer to non-const");
    }
    {
        small_call of;
        of["k_new"] = tensor(element_type::f32, of["k"].mutable_data(), of["k_new"].shape());
        CHECK(of.refusal(kernels) ==
              "attune: expected k apart from k_new, got two tensors that overlap in memory; try another buffer for k");
    }
    {
        small_call of;
        const tensor k = of["k"];
        const std::int64_t strides[] = {0, k.stride(1), k.stride(2), 1};
        of["k"] = tensor(k.type(), k.mutable_data(), k.shape(), strides);
        CHECK(of.refusal(kernels).find("expected elements of k at distinct addresses") != std::string::npos);
    }
}

TEST_CASE("a packed call stores what the calls of its sequences do", "[stores]") {
    const compiled kernel(ir_of<step>, "decode");
    constexpr std::int64_t heads = 4, key_heads = 2, queries = 7, keys = 50, d = 64, dv = 32;
    std::vector<std::int32_t> starts{0, 1, 2, 7}, lengths{10, 1, 33};
    std::mt19937 random(3);
    const auto drawn = [&](std::int64_t size) {
        std::normal_distribution<float> normal;
        std::vector<float> all(static_cast<std::size_t>(size));
        for (float& x : all) x = normal(random);
        return all;
    };
    std::vector<float> q = drawn(heads * queries * d), k_rows = drawn(key_heads * queries * d),
                       v_rows = drawn(key_heads * queries * dv);
    struct results {
        std::vector<float> k, v, out, lse;
        bool operator==(const results&) const = default;
    };
    const results before{drawn(3 * key_heads * keys * d), drawn(3 * key_heads * keys * dv),
                         std::vector<float>(heads * queries * dv), std::vector<float>(heads * queries)};
    // The queries [first, last) of a packed tensor, the sequences [b, end) of a cache.
    const auto rows = [](std::vector<float>& of, std::int64_t heads, std::int64_t width, int first, int last) {
        const std::int64_t shape[] = {1, heads, last - first, width}, strides[] = {0, queries * width, width, 1};
        return tensor(element_type::f32, static_cast<void*>(of.data() + first * width), shape, strides);
    };
    const auto cache = [](std::vector<float>& of, std::int64_t width, int b, int end) {
        const std::int64_t shape[] = {end - b, key_heads, keys, width};
        return tensor(element_type::f32, static_cast<void*>(of.data() + b * key_heads * keys * width), shape);
    };
    const auto run = [&](results& to, int b, int end, bool packed) {
        const int first = starts[static_cast<std::size_t>(b)], last = starts[static_cast<std::size_t>(end)];
        std::vector<attune::detail::named_argument> all;
        const auto give = [&](std::string_view name, const tensor& view) {
            all.push_back({.name = name, .view = view});
        };
        give("q", rows(q, heads, d, first, last)), give("k_new", rows(k_rows, key_heads, d, first, last));
        give("v_new", rows(v_rows, key_heads, dv, first, last)), give("out", rows(to.out, heads, dv, first, last));
        const std::int64_t shape[] = {1, heads, last - first}, strides[] = {0, queries, 1};
        give("lse", tensor(element_type::f32, static_cast<void*>(to.lse.data() + first), shape, strides));
        give("k", cache(to.k, d, b, end)), give("v", cache(to.v, dv, b, end));
        give("kv_lengths", tensor(lengths.data() + b, {end - b}));
        if (packed) give("cu_seqlens_q", tensor(starts.data(), {4}));
        attune::detail::call(kernel.kernel->table(), all, {.threads = 2, .deterministic = true});
    };
    results together = before, apart = before;
    run(together, 0, 3, true);
    for (int b = 0; b < 3; ++b) run(apart, b, b + 1, false);
    CHECK(together == apart);
    CHECK(together.k != before.k);
}

TEST_CASE("reals are stored as the nearest bf16", "[stores]") {
    const compiled kernel(ir_of<step>, "decode", "q:f32,k:bf16,v:f16,out:f32");
    workload call(kernel.of.graph, {.batches = 2, .keys = 20, .depth = 64, .value_depth = 32}, 11);
    call.convert("k", element_type::bf16), call.convert("v", element_type::f16);
    call["k_new"].reals[0] = std::numeric_limits<float>::quiet_NaN(), call["k_new"].reals[1] = 3.4e38f;
    const auto expected = call.expected();
    attune::detail::call(kernel.kernel->table(), call.arguments(), {});
    for (const char* const name : {"k", "v"}) CHECK(call.largest_error(expected, name) == 0);
}

TEST_CASE("keys and values are stored in one pool", "[stores]") {
    const compiled kernel(ir_of<step>, "decode", "f32");
    constexpr std::int64_t keys = 12, d = 64, dv = 32, pair = keys * (d + dv);
    const std::int64_t k_strides[] = {pair, pair, d, 1}, v_strides[] = {pair, pair, dv, 1}, k_shape[] = {2, 1, keys, d},
                       v_shape[] = {2, 1, keys, dv};
    std::vector<float> pool(2 * pair), q2(2 * d, 0.5f), k2(2 * d, 2.0f), v2(2 * dv, 3.0f), out2(2 * dv), lse2(2);
    const std::vector<attune::detail::named_argument> all{
        {.name = "q", .view = tensor(q2.data(), {2, 1, 1, d})},
        {.name = "k", .view = tensor(element_type::f32, static_cast<void*>(pool.data()), k_shape, k_strides)},
        {.name = "v",
         .view = tensor(element_type::f32, static_cast<void*>(pool.data() + keys * d), v_shape, v_strides)},
        {.name = "k_new", .view = tensor(k2.data(), {2, 1, 1, d})},
        {.name = "v_new", .view = tensor(v2.data(), {2, 1, 1, dv})},
        {.name = "out", .view = tensor(out2.data(), {2, 1, 1, dv})},
        {.name = "lse", .view = tensor(lse2.data(), {2, 1, 1})}};
    attune::detail::call(kernel.kernel->table(), all, {});
    for (const std::int64_t b : {0, 1}) {
        CHECK(pool[static_cast<std::size_t>(b * pair + (keys - 1) * d)] == 2.0f);
        CHECK(pool[static_cast<std::size_t>(b * pair + keys * d + (keys - 1) * dv)] == 3.0f);
    }
    CHECK(std::ranges::count(pool, 0.0f) == 2 * (keys - 1) * (d + dv));
}

TEST_CASE(
    "stores have no kernel for Vulkan yet, and are no operator of a system whose operators leave their inputs alone",
    "[stores]") {
    const generators::variant of{"my::step", ir_of<step>};
    const auto list = generators::kernels_of(
        {&of, 1}, {.targets = {"vulkan"}, .dtypes = {"f32"}, .depths = {"64"}, .shapes = {"prefill"}});
    CHECK_THROWS_WITH(generators::lower(list.front().request),
                      "a graph that stores has no kernel for Vulkan yet; try TARGETS of CPUs, opencl or cuda");
    const generators::variant by_sum{"my::counted", ir_of<counted>};
    const auto on_cuda = generators::kernels_of(
        {&by_sum, 1}, {.targets = {"cuda"}, .dtypes = {"f32"}, .depths = {"64"}, .shapes = {"prefill"}});
    CHECK_THROWS_WITH(generators::lower(on_cuda.front().request),
                      "a store whose place or condition is a sum has no kernel on a GPU yet; pass the place as an "
                      "input");
    static const kernel_table table{
        .version = kernel_table_version, .variant = "my::step", .graph = ir_of<step>, .kernels = {}};
    const attune_variant handle{ATTUNE_C_VERSION, nullptr, +[]() -> const kernel_table& { return table; }};
    CHECK_THROWS_WITH(attune::detail::operation(&handle),
                      "attune: expected a variant that leaves its inputs as they are, as operators of PyTorch and "
                      "functions of JAX do, got my::step, which stores to them; try its calls from C++, C or NumPy");
}
