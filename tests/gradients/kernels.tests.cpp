#include "../golden/golden.hpp"
#include "../support/workload_values.hpp"
#include "functions.hpp"
#include "gradient_errors.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace attune;
using namespace attune::testing;
using support::shape;
namespace g = golden_gradients;

namespace {

template <const auto& Forward, const auto& Gradient> void check_bits(const shape& s) {
    gradient_call call(dsl::ir_of<Forward>, dsl::ir_of<Gradient>, s, 3);
    call.run(detail::table_of<Gradient>(), 1);
    const auto first = call.results;
    for (const int threads : {1, 2, 3, 7}) {
        call.run(detail::table_of<Gradient>(), threads);
        for (std::size_t i = 0; i < first.size(); ++i) {
            INFO(first[i].name << ", " << threads << " threads");
            CHECK(std::memcmp(first[i].reals.data(), call.results[i].reals.data(), first[i].size * sizeof(float)) == 0);
        }
    }
}

}  // namespace

TEST_CASE("kernels of gradients agree with the reference at any shape", "[kernels]") {
    const shape usual{.batches = 2, .heads = 4, .key_heads = 2, .queries = 67, .keys = 101};
    for (const std::int64_t queries : {1, 48, 49, 97, 200}) {
        shape s = usual;
        s.queries = queries, s.keys = queries;
        INFO(s.text());
        CHECK(error_of<g::causal_only, g::causal_gradient>(s) <= allowed);
        CHECK(error_of<g::alibi, g::alibi_gradient>(s) <= allowed);
    }
    for (const std::int64_t keys : {1, 47, 48, 400}) {
        shape s = usual;
        s.keys = keys;
        INFO(s.text());
        CHECK(error_of<g::full, g::full_gradient>(s) <= allowed);
        CHECK(error_of<g::bias_keys, g::bias_keys_gradient>(s) <= allowed);
    }
    shape s = usual;
    s.gaps = true;
    CHECK(error_of<g::full, g::full_gradient>(s) <= allowed);
    s.gaps = false, s.heads = 3, s.key_heads = 1, s.depth = 24, s.value_depth = 40;
    CHECK(error_of<g::full, g::full_gradient>(s) <= allowed);
    CHECK(error_of<g::full, g::full_gradient>(usual, {0, 77}) <= allowed);
    CHECK(error_of<g::at_the_end, g::at_the_end_gradient>(usual, {101, 77}) <= allowed);  // the last key in use
    CHECK(error_of<g::at_the_end, g::at_the_end_gradient>(usual, {0, 30}) <= allowed);  // fewer than there are queries
    CHECK(error_of<g::renormalised, g::renormalised_gradient>(usual, {101, 3}) <= allowed);
    CHECK(error_of<g::functions, g::functions_gradient>(usual) <= allowed);
    CHECK(error_of<g::masked_inside, g::masked_inside_gradient>(usual) <= allowed);
}

TEST_CASE("where queries see one key, nothing is passed back through its weight", "[kernels]") {
    const shape s{.batches = 2, .heads = 4, .key_heads = 2, .queries = 50, .keys = 1};
    gradient_call call(dsl::ir_of<g::full>, dsl::ir_of<g::full_gradient>, s, 7);
    call.run(detail::table_of<g::full_gradient>(), 2);
    int found = 0;
    for (const elements& result : call.results) {
        if (result.name == "dv") continue;
        INFO(result.name);
        CHECK(std::ranges::all_of(result.reals, [](float x) { return x == 0; }));
        ++found;
    }
    CHECK(found == 2);
}

TEST_CASE("what is placed by an index agrees with the reference at any shape", "[kernels]") {
    for (const std::int64_t length : {1, 97}) {
        const shape s{.batches = 2, .heads = 2, .key_heads = 1, .queries = length, .keys = length};
        INFO(s.text());
        CHECK(error_of<g::bias_heads, g::bias_heads_gradient>(s) <= allowed);
        CHECK(error_of<g::bias_shared, g::bias_shared_gradient>(s) <= allowed);
        CHECK(error_of<g::relative_table, g::relative_table_gradient>(s) <= allowed);
        CHECK(error_of<g::rope, g::rope_gradient>(s) <= allowed);
        CHECK(error_of<g::gate, g::gate_gradient>(s) <= allowed);
        CHECK(error_of<g::cosine, g::cosine_gradient>(s) <= allowed);
    }
    const shape s{.batches = 2, .heads = 6, .key_heads = 2, .queries = 67, .keys = 101};
    CHECK(error_of<g::quantised_cache, g::quantised_cache_gradient>(s) <= 10 * allowed);  // codes up to 128
}

TEST_CASE("what queries and keys are formed of adds nothing where there is no key, whatever lies there", "[kernels]") {
    const shape s{.batches = 2, .heads = 4, .key_heads = 2, .queries = 67, .keys = 101};
    for (const float unused : {std::nanf(""), 0.0f}) {  // rsqrt(0) is infinite, too
        gradient_call call(dsl::ir_of<g::cosine>, dsl::ir_of<g::cosine_gradient>, s, 7, {0, 77});
        if (unused == 0) std::ranges::replace_if(call.inputs["k"].reals, [](float x) { return std::isnan(x); }, unused);
        call.run(detail::table_of<g::cosine_gradient>(), 2);
        CHECK(call.error() <= allowed);

        gradient_call empty(dsl::ir_of<g::cosine>, dsl::ir_of<g::cosine_gradient>, s, 7, {0, 0});
        sprinkle(empty.inputs, "q", unused, 1);
        empty.run(detail::table_of<g::cosine_gradient>(), 2);
        CHECK(empty.error() == 0);
    }
}

TEST_CASE("sums of several parts of the queries are added up", "[kernels]") {
    const shape s{.batches = 1, .heads = 2, .key_heads = 1, .queries = 1100, .keys = 70};
    CHECK(error_of<g::full, g::full_gradient>(s) <= allowed);
    // The gradient of a slope is a sum over 77,000 pairs, which cancel: other seeds have up to 1.3e-4.
    CHECK(error_of<g::alibi, g::alibi_gradient>(s) <= 20 * allowed);
    CHECK(error_of<g::bias_keys, g::bias_keys_gradient>(s) <= allowed);
    CHECK(error_of<g::bias_heads, g::bias_heads_gradient>(s) <= allowed);
    CHECK(error_of<g::relative_table, g::relative_table_gradient>(s) <= 2 * allowed);
    const shape grouped{.batches = 1, .heads = 4, .key_heads = 2, .queries = 1100, .keys = 20};
    CHECK(error_of<g::quantised_cache, g::quantised_cache_gradient>(grouped) <= 10 * allowed);
}

namespace {
/// Relative to the largest. Sums are f32 and rounded once, to 2^-9 of themselves; with dot products of bf16 the weights
/// and the gradients of the scores that are summed were rounded as well.
constexpr double rounded_once = 0x1p-8, rounded_twice = 0x1p-7;
}  // namespace

TEST_CASE("gradients of bf16 are f32 sums, rounded in the end", "[kernels]") {
    const shape s{.batches = 2, .heads = 4, .key_heads = 2, .queries = 67, .keys = 101};
    constexpr auto bf16 = element_type::bf16;
    CHECK(error_of<g::causal_only, g::causal_in_bf16_gradient>(s, {101, 5}, bf16) <= rounded_twice);
    CHECK(error_of<g::alibi, g::alibi_in_bf16_gradient>(s, {}, bf16) <= rounded_once);
    const shape square{.batches = 2, .heads = 4, .key_heads = 2, .queries = 67, .keys = 67};
    CHECK(error_of<g::rope, g::rope_in_bf16_gradient>(square, {}, bf16) <= rounded_once);
}

TEST_CASE("gradients of bf16 agree with the reference at any shape", "[kernels]") {
    constexpr auto bf16 = element_type::bf16;
    for (const std::int64_t length : {1, 2, 31, 65, 130}) {
        const shape s{.batches = 2, .heads = 4, .key_heads = 2, .queries = length, .keys = length};
        INFO(s.text());
        CHECK(error_of<g::causal_only, g::causal_in_bf16_gradient>(s, {}, bf16) <= rounded_twice);
    }
    const shape parts{.batches = 1, .heads = 2, .key_heads = 1, .queries = 1100, .keys = 71};
    CHECK(error_of<g::causal_only, g::causal_in_bf16_gradient>(parts, {}, bf16) <= rounded_twice);
}

TEST_CASE("bits of gradients depend neither on threads nor on the run", "[kernels]") {
    const shape s{.batches = 1, .heads = 4, .key_heads = 2, .queries = 1100, .keys = 50};
    check_bits<g::alibi, g::alibi_gradient>(s);
    check_bits<g::bias_heads, g::bias_heads_gradient>(s);
    check_bits<g::relative_table, g::relative_table_gradient>(s);
}

TEST_CASE("gradients of a call without queries, or without keys, are 0", "[kernels]") {
    for (const auto& [queries, keys] : {std::pair(0, 5), std::pair(5, 0)}) {
        const shape s{.batches = 2, .heads = 4, .key_heads = 2, .queries = queries, .keys = keys};
        INFO(s.text());
        CHECK(error_of<g::alibi, g::alibi_gradient>(s) == 0);
        CHECK(error_of<g::bias_shared, g::bias_shared_gradient>(s) == 0);
        CHECK(error_of<g::alibi, g::alibi_in_bf16_gradient>(s, {}, element_type::bf16) == 0);
    }
}

namespace {

std::size_t held = 0;
void count_memory(int (*entry)(void**), void** arguments, int threads, detail::task_options how, std::size_t*) {
    std::size_t most = 0;
    detail::invoke(entry, arguments, threads, how, &most);
    held = std::max(held, most);
}

/// Inputs of a call, which are not read: all of them at one place.
std::vector<detail::named_argument> unread_inputs(const graph_ir& graph, const shape& s, const float* there) {
    std::vector<detail::named_argument> arguments;
    for (const input_declaration& d : graph.inputs) {
        if (d.is_scalar) {
            arguments.push_back({.name = d.name, .is = detail::named_argument::form::real, .real = 1});
            continue;
        }
        std::vector<std::int64_t> extents;
        for (int axis = 0; axis < d.rank; ++axis) {
            const axis_kind is = d.axes[static_cast<std::size_t>(axis)].kind;
            extents.push_back(is == axis_kind::batch      ? s.batches
                              : is == axis_kind::head     ? s.heads
                              : is == axis_kind::key_head ? s.key_heads
                              : is == axis_kind::key      ? s.keys
                              : is == axis_kind::depth    ? s.depth
                                                          : s.queries);
            if (is == axis_kind::value_depth) extents.back() = s.value_depth;
        }
        arguments.push_back({.name = d.name, .view = tensor(there, std::span<const std::int64_t>(extents))});
    }
    return arguments;
}

/// The explanation of a call whose tensors are not there.
template <const auto& Gradient> explanation said_of(const shape& s) {
    static const float nothing{};
    return detail::explain(detail::table_of<Gradient>(), unread_inputs(dsl::ir_of<Gradient>, s, &nothing),
                           {.threads = 16});
}

template <const auto& Forward, const auto& Gradient>
void check_memory(const shape& s, element_type element = element_type::f32) {
    gradient_call call(dsl::ir_of<Forward>, dsl::ir_of<Gradient>, s, 3, {}, element);
    kernel_table counted = detail::table_of<Gradient>();
    counted.invoke = &count_memory;
    held = 0;
    call.run(counted, 2);
    const std::size_t said = detail::explain(counted, call.arguments, {.threads = 2}).sum_bytes;
    INFO(held << " bytes held, " << said << " said");
    CHECK(held <= said + (std::size_t{1} << 16));  // tables of visits, and what is rounded up
    CHECK(said <= held + held / 2);
}

}  // namespace

TEST_CASE("explain says how much memory the sums of a gradient take", "[kernels]") {
    const shape s{.batches = 1, .heads = 6, .key_heads = 2, .queries = 198, .keys = 230};
    check_memory<g::alibi, g::alibi_gradient>(s);
    const shape square{.batches = 1, .heads = 6, .key_heads = 2, .queries = 230, .keys = 230};
    check_memory<g::rope, g::rope_gradient>(square);
    check_memory<g::rope, g::rope_in_bf16_gradient>(square, element_type::bf16);
}

TEST_CASE("a call at 16384 positions takes at most four times its tensors and 64 MB", "[kernels]") {
    for (const std::int64_t key_heads : {8, 2, 1}) {
        const shape s{
            .heads = 8, .key_heads = key_heads, .queries = 16384, .keys = 16384, .depth = 64, .value_depth = 64};
        const auto tensors = static_cast<std::size_t>(2 * 4 * (s.heads + s.key_heads) * s.queries * s.depth);
        const explanation said = said_of<g::causal_gradient>(s);
        CHECK(said.workspace_bytes <= 4 * tensors + (std::size_t{64} << 20));
        CHECK(said.sum_bytes >= tensors / 2);
    }
}

TEST_CASE("a gradient whose sums take more than 2 GiB is refused before anything is written", "[kernels]") {
    shape s{.heads = 168, .key_heads = 168, .queries = 16384, .keys = 16384, .depth = 64, .value_depth = 64};
    CHECK(said_of<g::causal_gradient>(s).sum_bytes > std::size_t{2000} << 20);
    s.heads = s.key_heads = 176;
    const std::int64_t extents[] = {1, 176, 16384, 64};
    const std::size_t elements = std::size_t{176} * 16384 * 64, bytes = 4 * elements * sizeof(float);
    void* const sparse = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(sparse != MAP_FAILED);
    auto* at = static_cast<float*>(sparse);
    auto arguments = unread_inputs(dsl::ir_of<g::causal_gradient>, s, at);
    for (const char* const name : {"dq", "dk", "dv"})
        arguments.push_back({.name = name, .view = tensor(at += elements, extents)});
    CHECK_THROWS_MATCHES(
        detail::call(detail::table_of<g::causal_gradient>(), arguments, {}), error,
        Catch::Matchers::MessageMatches(
            Catch::Matchers::StartsWith(
                "attune: expected at most 2147483647 bytes of sums that the gradient's kernel keeps for "
                "itself, got 22") &&
            Catch::Matchers::EndsWith("; try fewer batch elements or heads a call")));
    munmap(sparse, bytes);
}

TEST_CASE("a gradient does not broadcast, and nothing is written before that is said", "[kernels]") {
    const shape s{.batches = 2, .heads = 4, .key_heads = 2, .queries = 5, .keys = 5};
    gradient_call call(dsl::ir_of<g::alibi>, dsl::ir_of<g::alibi_gradient>, s, 3);
    float one = -1;
    const std::int64_t shape_of_one[] = {1};
    for (auto& argument : call.arguments)
        if (argument.name == "dslopes") argument.view = tensor(&one, shape_of_one);
    CHECK_THROWS_MATCHES(
        detail::call(detail::table_of<g::alibi_gradient>(), call.arguments, {}), error,
        Catch::Matchers::MessageMatches(Catch::Matchers::ContainsSubstring("expected head extent 4 in dslopes")));
    CHECK(one == -1);
    CHECK(std::isnan(call.results.front().at(0)));
}
