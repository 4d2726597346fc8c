// Kernels for few queries, compiled in process: against the reference in double precision, and against themselves where
// bits are promised.
#include "../support/workload_values.hpp"
#include "analysis/plan.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;
inline constexpr auto highest = output<"highest">;
inline constexpr auto sums = output<"sums">;
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto sinks = input<"sinks", f32>(head);
inline constexpr auto shared = input<"shared", f32>(key_head);
inline constexpr auto scores = q * t(k) * rsqrt(depth);
inline constexpr auto plain = softmax(scores) * v;
inline constexpr auto causal_alibi = softmax(mask(scores + slopes(h) * (kv_idx - q_idx), causal_bottom_right)) * v;
inline constexpr auto last_keys = softmax(mask(softcap(20, scores), bottom_right(window(99, 0)))) * v;
inline constexpr auto by_head = softmax(mask(scores * slopes(h), kv_idx % 300 <= 40 + 10 * h)) * v;
inline constexpr auto hidden = mask(scores, causal_bottom_right);
inline constexpr auto with_sink =
    outputs(out = softmax(hidden, sinks(h)) * v, lse = log_sum_exp(hidden, sinks(h)), highest = row_maximum(hidden));
inline constexpr auto halved = outputs(out = (softmax(hidden) * where(kv_idx % 2 == 0, 1.0, 0.5)) * v,
                                       sums = row_sum(softmax(hidden) * where(kv_idx % 2 == 0, 1.0, 0.5)));
inline constexpr auto kept = input<"kept", f32>(head, key);
inline constexpr auto weighed = softmax(scores) * kept(h, kv_idx) * v;
inline constexpr auto logistic = unnormalized(1.0 / (1.0 + exp(-hidden))) * v;
inline constexpr auto grown = softmax(q * t(keys(k(b, h, kv_idx, d_idx) * shared(h))) * rsqrt(depth)) * v;

std::string best_level() {
    for (const generators::level& each : generators::levels())
        if (runs(each.name)) return std::string(each.name);
    throw std::runtime_error("no ISA level of attune's runs on this machine");
}

struct compiled {
    explicit compiled(const graph_ir& graph, const std::string& depths = "32", const std::string& dtypes = "f32")
        : of{"my::decoded", graph} {
        kernel = std::make_unique<generators::jit_kernel>(
            generators::kernels_of(
                {&of, 1}, {.targets = {best_level()}, .dtypes = {dtypes}, .depths = {depths}, .shapes = {"decode"}})
                .front());
    }
    void operator()(workload& call, const options& how = {}) const {
        attune::detail::call(kernel->table(), call.arguments(), how);
    }
    generators::variant of;
    std::unique_ptr<generators::jit_kernel> kernel;
};

std::vector<support::shape> shapes_of(std::int64_t depth, std::int64_t value_depth) {
    std::vector<support::shape> all;
    for (const std::int64_t queries : {1, 2, 15, 16, 17, 35})
        for (const std::int64_t keys : {1, 7, 8, 9, 127, 128, 129, 700})
            all.push_back({.batches = 2,
                           .heads = 6,
                           .key_heads = 2,
                           .queries = queries,
                           .keys = keys,
                           .depth = depth,
                           .value_depth = value_depth});
    for (const std::int64_t keys : {1, 7, 8, 9, 127, 129})  // one row of each key head
        all.push_back({.batches = 2,
                       .heads = 3,
                       .key_heads = 3,
                       .queries = 1,
                       .keys = keys,
                       .depth = depth,
                       .value_depth = value_depth});
    all.push_back({.batches = 1,
                   .heads = 5,
                   .key_heads = 1,
                   .queries = 3,
                   .keys = 2100,
                   .depth = depth,
                   .value_depth = value_depth,
                   .gaps = true});
    all.push_back({.batches = 3,
                   .heads = 4,
                   .key_heads = 4,
                   .queries = 1,
                   .keys = 1000,
                   .depth = depth,
                   .value_depth = value_depth,
                   .gaps = true});
    return all;
}

/// `distances`: slopes multiply distances, so that scores, and the rounding of their f32 sums, grow with the keys.
void check(const compiled& kernel, const std::string& depths, double bound, bool distances = false) {
    const auto [depth, value_depth] = generators::depth_pair_from(depths);
    for (const support::shape& s : shapes_of(depth, value_depth)) {
        INFO(s.text());
        workload call(kernel.of.graph, s, 11);
        for (const input_declaration& input : kernel.of.graph.inputs)
            if (input.name == "slopes") scale_by(call, "slopes", 0.1f);  // scores of some tens
        double allowed = bound;
        if (distances) {
            double steepest = 0;
            for (std::int64_t h = 0; h < s.heads; ++h)
                steepest = std::max(
                    steepest, std::abs(static_cast<double>(static_cast<const float*>(call.view("slopes").data())[h])));
            // Product, bias and sum are each off by half a unit in the last place of the largest score at most; a
            // weight by as much of itself, numerator and denominator alike, with values of up to 4.
            constexpr double roundings = 3, half_unit = 0x1p-24, sides = 2, largest_value = 4;
            allowed += roundings * half_unit * sides * largest_value * steepest * static_cast<double>(s.keys);
        }
        kernel(call, {.threads = 2});
        const auto expected = call.expected();
        for (const output_declaration& output : kernel.of.graph.outputs)
            CHECK(call.largest_error(expected, output.name) < allowed);
    }
}
}  // namespace

TEST_CASE("decode agrees with the reference at every depth", "[decode]") {
    for (const char* const depths : {"32", "64x16", "24x72", "3x5"})
        check(compiled(ir_of<plain>, depths), depths, 2e-5);
}

TEST_CASE("decode agrees with the reference in all that the language says of scores, masks, weights and rows",
          "[decode]") {
    check(compiled(ir_of<causal_alibi>), "32", 2e-5, true);
    check(compiled(ir_of<last_keys>), "32", 5e-5);
    check(compiled(ir_of<by_head>), "32", 5e-5);
    check(compiled(ir_of<with_sink>), "32", 5e-5);
    check(compiled(ir_of<halved>), "32", 5e-5);
    check(compiled(ir_of<weighed>), "32", 5e-5);
    check(compiled(ir_of<logistic>), "32", 5e-4);
    check(compiled(ir_of<grown>), "32", 5e-5);
}

TEST_CASE("decode converts keys and values of 16 bits exactly", "[decode]") {
    const compiled kernel(ir_of<plain>, "32", "q:f32,k:bf16,v:f16,out:f32");
    for (const std::int64_t keys : {1, 9, 700}) {
        workload call(kernel.of.graph, {.batches = 2, .heads = 6, .key_heads = 2, .queries = 3, .keys = keys}, 5);
        call.convert("k", element_type::bf16);
        call.convert("v", element_type::f16);
        kernel(call);
        CHECK(call.largest_error(call.expected(), "out") < 2e-5);
    }
}

TEST_CASE("decode reads no key beyond those in use, and hides all of none", "[decode]") {
    const compiled kernel(ir_of<causal_alibi>);
    workload call(kernel.of.graph, {.batches = 4, .heads = 6, .key_heads = 2, .queries = 5, .keys = 700, .gaps = true},
                  3);
    call.set_lengths({0, 1, 128, 333});
    kernel(call);
    CHECK(call.largest_error(call.expected(), "out") < 5e-5);
    CHECK(outputs_untouched(call, true));
    workload one_row(kernel.of.graph, {.batches = 4, .heads = 2, .key_heads = 2, .queries = 1, .keys = 700}, 3);
    one_row.set_lengths({0, 3, 130, 333});
    kernel(one_row);
    CHECK(one_row.largest_error(one_row.expected(), "out") < 5e-5);
}

namespace {
/// The bits of batch element `of` of an output.
std::vector<float> bits(const workload& call, std::int64_t of) {
    const tensor& t = call.view("out");
    std::vector<float> result;
    for (std::int64_t h = 0; h < t.extent(1); ++h)
        for (std::int64_t i = 0; i < t.extent(2); ++i)
            for (std::int64_t d = 0; d < t.extent(3); ++d)
                result.push_back(static_cast<const float*>(
                    t.data())[of * t.stride(0) + h * t.stride(1) + i * t.stride(2) + d * t.stride(3)]);
    return result;
}
bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}
}  // namespace

TEST_CASE(
    "no bit of decode depends on the threads or on how long the slots are; with options::deterministic, none on the "
    "batch",
    "[decode]") {
    const compiled kernel(ir_of<plain>);
    const auto run = [&](std::int64_t batches, std::int64_t slots, const options& how) {
        // the same sequence, of 900 keys, is batch element 0 of each call: random numbers do not depend on what comes
        // after it
        workload alone(kernel.of.graph, {.batches = 1, .heads = 6, .key_heads = 2, .queries = 2, .keys = 900}, 21);
        workload call(kernel.of.graph, {.batches = batches, .heads = 6, .key_heads = 2, .queries = 2, .keys = slots},
                      22);
        for (const char* const name : {"q", "k", "v"}) {
            const tensor &from = alone.view(name), &to = call.view(name);
            for (std::int64_t h = 0; h < from.extent(1); ++h)
                for (std::int64_t i = 0; i < from.extent(2); ++i)
                    std::memcpy(static_cast<float*>(to.mutable_data()) + h * to.stride(1) + i * to.stride(2),
                                static_cast<const float*>(from.data()) + h * from.stride(1) + i * from.stride(2),
                                32 * sizeof(float));
        }
        std::vector<std::int32_t> lengths(static_cast<std::size_t>(batches), 900);
        call.set_lengths(lengths);
        kernel(call, how);
        return bits(call, 0);
    };
    const auto first = run(1, 900, {.threads = 1});
    for (const int threads : {2, 3, 7}) CHECK(same(first, run(1, 900, {.threads = threads})));
    for (const std::int64_t slots : {901, 1024, 5000}) CHECK(same(first, run(1, slots, {.threads = 2})));
    const options fixed{.threads = 2, .deterministic = true};
    const auto alone = run(1, 900, fixed);
    for (const std::int64_t batches : {2, 5, 40})
        for (const std::int64_t slots : {900, 901, 1024, 5000}) CHECK(same(alone, run(batches, slots, fixed)));
    // Parts of the keys follow the batch unless asked not to: were there nothing to see, this test could not fail.
    CHECK_FALSE(same(first, run(40, 900, {.threads = 2})));
}

TEST_CASE("of both kernels the one that serves the number of queries runs, and is right at the boundary", "[decode]") {
    const generators::variant of{"my::both", ir_of<causal_alibi>};
    const auto list = generators::kernels_of(
        {&of, 1}, {.targets = {best_level()}, .dtypes = {"f32"}, .depths = {"32"}, .shapes = {"prefill", "decode"}});
    REQUIRE(list.size() == 2);
    const generators::jit_kernel first(list[0]), second(list[1]);
    kernel rows[] = {first.table().kernels.front(), second.table().kernels.front()};
    rows[0].to_queries = list[0].to_queries, rows[1].to_queries = list[1].to_queries;
    const kernel_table both{kernel_table_version, "my::both", of.graph, rows};
    for (const std::int64_t queries : {1, 15, 16, 17, 18}) {
        workload call(of.graph, {.batches = 2, .heads = 6, .key_heads = 2, .queries = queries, .keys = 300}, 8);
        scale_by(call, "slopes", 0.1f);
        attune::detail::call(both, call.arguments(), {.threads = 2});
        CHECK(call.largest_error(call.expected(), "out") < 5e-5);
        const explanation said = attune::detail::explain(both, call.arguments(), {});
        CHECK(said.kernel == rows[queries <= 16].symbol);
        CHECK(said.shapes == (queries <= 16
                                  ? "decode, for 1 to 16 queries (also linked: prefill, for any number of queries)"
                                  : "prefill, for any number of queries (also linked: decode, for 1 to 16 queries)"));
        CHECK((said.key_splits > 0) == (queries <= 16));
        CHECK((said.split_bytes > 0) == (queries <= 16));
    }
    const kernel_list linked = attune::detail::kernels(both);
    for (const auto& entry : linked.entries) CHECK(entry.chosen);
    CHECK(linked.entries.at(1).shapes == "decode");
    CHECK(linked.entries.at(1).to_queries == 16);
}

TEST_CASE("where the heads of a token lie side by side, the keys of a head are read in more splits", "[decode]") {
    const compiled kernel(ir_of<plain>);
    const auto splits = [&](bool token_major, std::int64_t keys) {
        workload call(kernel.of.graph,
                      {.batches = 16, .heads = 8, .key_heads = 4, .queries = 1, .keys = keys, .gaps = token_major}, 8);
        attune::detail::call(kernel.kernel->table(), call.arguments(), {.threads = 2});
        CHECK(call.largest_error(call.expected(), "out") < 5e-5);
        return attune::detail::explain(kernel.kernel->table(), call.arguments(), {}).key_splits;
    };
    CHECK(splits(false, 2048) == 1);
    CHECK(splits(true, 2048) == 4);
    CHECK(splits(true, 500) == 1);
}

TEST_CASE("the workspace of decode does not grow with the keys, and explain states it", "[decode]") {
    const compiled kernel(ir_of<plain>);
    std::vector<std::size_t> bytes;
    for (const std::int64_t keys : {4096, 65536}) {
        workload call(kernel.of.graph, {.batches = 1, .heads = 4, .key_heads = 1, .queries = 1, .keys = keys}, 8);
        bytes.push_back(
            attune::detail::explain(kernel.kernel->table(), call.arguments(), {.threads = 2}).workspace_bytes);
    }
    CHECK(bytes.at(0) == bytes.at(1));
}

TEST_CASE("a graph that has no kernel for decode says why", "[decode]") {
    static constexpr auto weights_too = outputs(out = softmax(scores) * v, sums = softmax(scores));
    CHECK(generators::facts_of(ir_of<plain>)->decode_unsupported_reason.empty());
    CHECK(generators::facts_of(ir_of<with_sink>)->decode_unsupported_reason.empty());
    CHECK(generators::facts_of(ir_of<weights_too>)->decode_unsupported_reason == "an output has an axis of keys");
    CHECK_THROWS_AS(compiled(ir_of<weights_too>), std::runtime_error);
}
