// Keys that a call chooses one by one, for each query, compiled in process, beside the reference: decode lists the keys
// that a query sees, prefill looks at each.
#include "analysis/listed_keys.hpp"
#include "../support/workload_values.hpp"
#include "inspect/explain_blocks.hpp"
#include "kernel/kernel_list.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/catalogue/selectors.hpp>
#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;

inline constexpr auto count = scalar<"count", i32>;
inline constexpr auto scores = q * t(k) * rsqrt(depth);
constexpr auto under(expression auto condition) { return softmax(mask(scores, condition)) * v; }

/// DeepSeek V3.2: an indexer of a few heads, whose choice all heads share.
inline constexpr auto q_index = input<"q_index", f32>(batch, axis<"indexer_head">, query, axis<"indexer_depth">);
inline constexpr auto k_index = input<"k_index", f32>(batch, key, axis<"indexer_depth">);
inline constexpr auto w_index = input<"w_index", f32>(batch, query, axis<"indexer_head">);
inline constexpr auto indexed =
    catalogue::indexed_keys(q_index, k_index, w_index, extent<1>(q_index), extent<3>(q_index), count);
inline constexpr auto by_indexer = under(indexed);
/// The same beside a window, with a bias of the key and a log-sum-exp.
inline constexpr auto slopes = input<"slopes", f32>(batch, key);
inline constexpr auto biased =
    mask(scores + slopes(b, kv_idx), indexed || (causal_bottom_right && kv_idx >= kv_lengths(b) - 5));
inline constexpr auto beside_window = outputs(out = softmax(biased) * v, lse = log_sum_exp(biased));

/// Each query head by numbers that the caller passes.
inline constexpr auto n = bound_index<"n">;
inline constexpr auto importance = input<"importance", f32>(batch, head, key);
inline constexpr auto numbers = precomputed(importance(b, h, n), n, key_length);
inline constexpr auto by_head = under(top_k(numbers, count)(b, h, kv_idx));

/// What is trained: the choice is made again, and no gradient flows to the indexer.
inline constexpr auto trained = outputs(out = by_indexer, lse = log_sum_exp(mask(scores, indexed)));
inline constexpr auto trained_gradient = gradient(trained, of(out), wrt(q, k, v));

/// Nothing is listed: blocks are chosen; a second softmax sees all keys.
inline constexpr auto by_block = under(top_k(numbers, count)(b, h, kv_idx / 16));
inline constexpr auto twice = by_head - softmax(scores) * v;

struct graph {
    const char* name;
    graph_ir ir;
};
const graph indexer{"by_indexer", ir_of<by_indexer>}, beside{"beside_window", ir_of<beside_window>},
    each_head{"by_head", ir_of<by_head>}, gradients{"trained_gradient", ir_of<trained_gradient>};

/// A kernel for prefill or decode beside the reference.
class compared {
public:
    compared(const graph& of, const char* shapes)
        : of_(of), variant_{of.name, of.ir}, listed_(listed_for(shapes)), kernel_(listed_) {}

    workload call_of(const support::shape& shape, int chosen) const {
        return {of_.ir, shape, 7, {{"count", chosen}}, {{"indexer_head", 3}, {"indexer_depth", 24}}};
    }
    void operator()(const support::shape& shape, int chosen, std::vector<std::int32_t> in_use = {}) const {
        workload call = call_of(shape, chosen);
        if (!in_use.empty()) call.set_lengths(std::move(in_use));
        check(call);
    }
    void check(workload& call) const {
        const auto expected = call.expected();
        for (const int threads : {1, 2}) {
            call.reset_outputs();
            attune::detail::call(kernel_.table(), call.arguments(), {.threads = threads});
            CAPTURE(of_.name, kernel_.table().kernels.front().symbol, threads);
            for (const output_declaration& output : of_.ir.outputs)
                CHECK(call.largest_error(expected, output.name) <= 2e-5);
            CHECK(outputs_untouched(call, true));
        }
    }

    const generators::kernel_request& request() const { return listed_.request; }

private:
    generators::listed_kernel listed_for(const char* shapes) const {
        std::string level;
        for (const generators::level& each : generators::levels())
            if (level.empty() && runs(each.name) && !each.is_for_bf16()) level = each.name;
        return generators::kernels_of({&variant_, 1},
                                      {.targets = {level}, .dtypes = {"f32"}, .depths = {"32"}, .shapes = {shapes}})
            .front();
    }
    const graph& of_;
    generators::variant variant_;
    generators::listed_kernel listed_;
    generators::jit_kernel kernel_;
};

}  // namespace

TEST_CASE("decode over keys that each query chooses beside a window gives what the reference gives", "[listed]") {
    const compared call(beside, "decode");
    call({.batches = 2, .heads = 4, .key_heads = 2, .queries = 1, .keys = 139}, 9);
    call({.heads = 4, .key_heads = 1, .queries = 3, .keys = 301, .gaps = true}, 40);
    call({.batches = 3, .heads = 2, .key_heads = 2, .queries = 2, .keys = 90}, 7, {90, 0, 5});
    for (const int chosen : {0, -1, 1, 1000}) call({.heads = 2, .key_heads = 2, .queries = 1, .keys = 70}, chosen);
    call({.heads = 1, .key_heads = 1, .queries = 1, .keys = 1}, 1);
    const auto reasons = generators::block_reasons(call.request());
    CHECK(std::ranges::any_of(reasons, [](const auto& each) { return each.skips; }));  // those behind the list
}

TEST_CASE("prefill over keys that each query chooses gives what the reference gives", "[listed]") {
    const compared call(indexer, "prefill");
    call({.batches = 2, .heads = 2, .key_heads = 1, .queries = 37, .keys = 75}, 9, {75, 41});
    call({.heads = 1, .key_heads = 1, .queries = 5, .keys = 70}, 0);
}

TEST_CASE("gradients reach q, k and v under a choice of single keys", "[listed]") {
    const compared call(gradients, "prefill");
    call({.batches = 2, .heads = 2, .key_heads = 1, .queries = 37, .keys = 75}, 9, {75, 41});
    call({.heads = 1, .key_heads = 1, .queries = 5, .keys = 70}, 0);
}

TEST_CASE("decode over keys that each query head chooses gives what the reference gives", "[listed]") {
    const compared of(each_head, "decode");
    of({.batches = 2, .heads = 4, .key_heads = 2, .queries = 1, .keys = 139}, 9);
    of({.batches = 2, .heads = 4, .key_heads = 1, .queries = 3, .keys = 90}, 7, {90, 0});
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    // Of equal scores those of the first keys are chosen, NaN before all others, and -infinity never.
    for (const std::vector<float>& first : {std::vector<float>{1, 1, 2, 1, 2, 1, 1, 1},
                                            {0.0f, -0.0f, -1, -0.0f, 0, 3},
                                            {nan, -inf, 2, nan, -inf, inf, -2, 5},
                                            {-inf, -inf, -inf}})
        for (const int chosen : {1, 3, 4, 30}) {
            workload call = of.call_of({.heads = 2, .key_heads = 1, .queries = 1, .keys = 23}, chosen);
            std::vector<float> all(46, -inf);
            std::ranges::copy(first, all.begin()), std::ranges::copy(first, all.begin() + 30);
            call.put("importance", all);
            CAPTURE(first, chosen);
            of.check(call);
        }
    // Keys that no query chose are not read.
    workload call = of.call_of({.heads = 2, .key_heads = 1, .queries = 1, .keys = 23}, 2);
    std::vector<float> importance(46), keys(23 * 32, nan);
    for (const std::size_t chosen : {3, 17}) {
        importance[chosen] = importance[23 + chosen] = 1;
        std::fill_n(keys.begin() + static_cast<std::ptrdiff_t>(32 * chosen), 32, 0.5f);
    }
    call.put("importance", importance), call.put("k", keys), call.put("v", keys);
    of.check(call);
}

TEST_CASE("keys are listed where single keys are chosen under the one softmax of a graph", "[listed]") {
    const auto lists = [](const graph_ir& of) {
        return generators::facts_of_listed_keys(*generators::facts_of(of)) != nullptr;
    };
    for (const graph& of : {beside, indexer, each_head}) CHECK(lists(of.ir));
    CHECK_FALSE(lists(ir_of<by_block>));
    CHECK_FALSE(lists(ir_of<twice>));
}
