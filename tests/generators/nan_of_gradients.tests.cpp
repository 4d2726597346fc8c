// Gradients of calls with NaN or infinities where pairs are masked, compiled in process for every level that runs here.
#include "../gradients/gradient_call.hpp"
#include "kernel/kernel_list.hpp"
#include "tested_levels.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

using namespace attune;
using testing::gradient_call, testing::elements_unlike;

namespace {
namespace formulas {
using namespace attune::dsl;

/// Query 3 sees no key, no query sees key 17, odd queries see four of five keys. One tensor's gradient is placed pair
/// by pair, others by an index of the query or of the key; k and v have the sums themselves.
inline constexpr auto gain = input<"gain", f32>(query, depth);
inline constexpr auto bias = input<"bias", f32>(head, query, key);
inline constexpr auto slopes = input<"slopes", f32>(batch, head, key);
inline constexpr auto products = queries(q(b, h, q_idx, d_idx) * gain(q_idx, d_idx)) * t(k) * rsqrt(depth);
inline constexpr auto seen = q_idx != 3 && kv_idx != 17 && (q_idx % 2 == 0 || kv_idx % 5 != 2);
inline constexpr auto scores = mask(products * slopes(b, h, kv_idx) + bias(h, q_idx, kv_idx), seen);
inline constexpr auto attention = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
inline constexpr auto attention_gradient = gradient(attention);
/// Of bf16 it is made of products of pairs, where there is an instruction for them.
inline constexpr auto plain_scores = mask(q * t(k) * rsqrt(depth), seen);
inline constexpr auto plain = outputs(out = softmax(plain_scores) * v, lse = log_sum_exp(plain_scores));
inline constexpr auto plain_gradient = gradient(plain);
/// No pair is seen, as the compiler of kernels finds out: there are no numbers between 0 and 0.
inline constexpr auto unseen_scores = where(any(bound_index<"i">, 0, q_idx <= kv_idx), q* t(k), -inf);
inline constexpr auto unseen = outputs(out = softmax(unseen_scores) * v, lse = log_sum_exp(unseen_scores));
inline constexpr auto unseen_gradient = gradient(unseen);
}  // namespace formulas

constexpr std::size_t batches = 2, heads = 4, key_heads = 2, queries = 67, keys = 101, depth = 32;
constexpr std::size_t empty_row = 3, unseen_key = 17, key_of_even_rows = 22;

void put(gradient_call& call, std::string_view name, std::size_t at, float value) {
    for (testing::elements& each : call.more)
        if (each.name == name) return each.put(at, value);
    support::owned_tensor& t = call.inputs[name];
    if (t.halves.empty())
        t.reals.at(at) = value;
    else
        t.halves.at(at) = bfloat16(value).bits;
}

/// Of all heads, a channel of each row at a position.
void put_rows(gradient_call& call, std::string_view name, std::size_t rows, std::size_t length, std::size_t position,
              float value) {
    for (std::size_t row = 0; row < rows; ++row)
        put(call, name, (row * length + position) * depth + (row + position) % depth, value);
}

void spoil_masked(gradient_call& call, float value) {
    for (const char* const name : {"q", "dout"}) put_rows(call, name, batches * heads, queries, empty_row, value);
    for (const char* const name : {"k", "v"}) put_rows(call, name, batches * key_heads, keys, unseen_key, value);
    if (call.graph.inputs.size() == dsl::ir_of<formulas::plain_gradient>.inputs.size()) return;
    put(call, "gain", empty_row * depth + 5, value);
    for (std::size_t row = 0; row < batches * heads; ++row) put(call, "slopes", row * keys + unseen_key, value);
    for (const auto& [query, key] : {std::pair(empty_row, std::size_t{40}), {20, unseen_key}, {33, key_of_even_rows}})
        for (std::size_t head = 0; head < heads; ++head)
            put(call, "bias", (head * queries + query) * keys + key, value);
}

reference::results by_reference(const gradient_call& call) {
    return reference::evaluate(call.graph, call.by_reference, {.depth = depth, .value_depth = depth});
}

template <const auto& Forward, const auto& Gradient>
void check(const std::string& level, element_type element, double allowed) {
    const bool wide = element == element_type::f32;
    INFO((wide ? "f32" : "bf16") << " for " << level);
    const generators::variant variant{"my::gradient", dsl::ir_of<Gradient>};
    const generators::jit_kernel kernel(
        generators::kernels_of(
            {&variant, 1},
            {.targets = {level}, .dtypes = {wide ? "f32" : "bf16"}, .depths = {"32"}, .shapes = {"prefill"}})
            .front());
    for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
        gradient_call call(
            dsl::ir_of<Forward>, variant.graph,
            {.batches = batches, .heads = heads, .key_heads = key_heads, .queries = queries, .keys = keys}, 7,
            {keys, 77}, element);
        INFO(value);
        spoil_masked(call, value);
        const reference::results expected = by_reference(call);
        for (std::size_t i = 0; i < expected.outputs.size(); ++i)
            CHECK(expected.outputs[i].values == call.expected.outputs[i].values);
        call.run(kernel.table(), 2);
        CHECK(elements_unlike(call, call.expected, allowed) == 0);

        put_rows(call, "k", batches * key_heads, keys, key_of_even_rows, std::nanf(""));
        put_rows(call, "v", batches * key_heads, keys, key_of_even_rows, std::nanf(""));
        call.run(kernel.table(), 2);
        CHECK(elements_unlike(call, by_reference(call), allowed) == 0);
    }
}

}  // namespace

TEST_CASE("a masked pair adds nothing to a gradient, whatever lies there", "[nan]") {
    const auto levels = testing::tested_levels();  // the last one has kernels of f32 of its own
    check<formulas::attention, formulas::attention_gradient>(std::string(levels.back().name), element_type::f32, 1e-5);
    check<formulas::attention, formulas::attention_gradient>(std::string(levels.front().name), element_type::bf16,
                                                             0x1p-8);
}

TEST_CASE("a masked pair adds nothing to a gradient of bf16, made by pairs where a level multiplies them", "[nan]") {
    constexpr double allowed = 0x1p-7;                              // what is summed is rounded to bf16, as the sum is
    for (const generators::level& each : testing::tested_levels())  // the most demanding first, which multiplies pairs
        if (runs(each.name))
            return check<formulas::plain, formulas::plain_gradient>(std::string(each.name), element_type::bf16,
                                                                    allowed);
    FAIL("no level runs here");
}

TEST_CASE("gradients of a formula that hides every pair are 0", "[nan]") {
    for (const generators::level& each : testing::tested_levels()) {
        if (!runs(each.name)) continue;
        INFO(each.name);
        const generators::variant variant{"my::gradient", dsl::ir_of<formulas::unseen_gradient>};
        const generators::jit_kernel kernel(
            generators::kernels_of({&variant, 1}, {.targets = {std::string(each.name)}, .depths = {"32"}}).front());
        gradient_call call(dsl::ir_of<formulas::unseen>, variant.graph,
                           {.batches = 1, .heads = 2, .key_heads = 1, .queries = 5, .keys = 7}, 7, {},
                           element_type::f32);
        call.run(kernel.table(), 2);
        CHECK(elements_unlike(call, call.expected, 0) == 0);
    }
}
