// Into how many splits decode cuts the keys that a window leaves, and which tasks several softmaxes share: compiled in
// process, against the reference.
#include "analysis/graph_facts.hpp"
#include "emit/visible_keys.hpp"
#include "kernel/kernel_list.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;
inline constexpr auto scores = q * t(k) * rsqrt(depth);
template <class Condition> constexpr auto under(Condition visible) { return softmax(mask(scores, visible)) * v; }
inline constexpr auto whole = softmax(scores) * v;
inline constexpr auto last_keys = under(bottom_right(window(127, 0)));
inline constexpr auto both_sides = under(window(3, 4));
inline constexpr auto left = scalar<"left", i32>;
inline constexpr auto right = scalar<"right", i32>;
inline constexpr auto of_the_call = under(bottom_right(window(left, right)));
inline constexpr auto first_of_the_call = under(bottom_right(window(left, 0)) || kv_idx < scalar<"sinks", i32>);
inline constexpr auto every_third = under(causal && window(4095, 0) && kv_idx % 3 == 0);
inline constexpr auto causal_alone = under(causal);
inline constexpr auto first_and_last = under(bottom_right(window(127, 0)) || kv_idx < 4);
inline constexpr auto causal_first_and_last = under(causal && (kv_idx < 4 || kv_idx > q_idx - 128));
inline constexpr auto first_or_every_third = under(kv_idx < 4 || kv_idx % 3 == 0);
inline constexpr auto by_head = under(kv_idx <= q_idx + 8 * h && kv_idx > q_idx + 8 * h - 8);

inline constexpr auto k2 = input<"k2", f32>(batch, key_head, key, depth);
inline constexpr auto v2 = input<"v2", f32>(batch, key_head, key, value_depth);
inline constexpr auto other_scores = q * t(k2) * rsqrt(depth);
inline constexpr auto same_values = whole - 0.5 * (softmax(other_scores) * v);
inline constexpr auto same_keys = outputs(out = whole, output<"other"> = softmax(2.0 * scores) * v2);
inline constexpr auto nothing_shared = outputs(out = whole, output<"other"> = softmax(other_scores) * v2);
inline constexpr auto other_numbers = outputs(out = whole, lse = log_sum_exp(2.0 * scores));

struct compiled {
    explicit compiled(const graph_ir& graph) : of{"my::decoded", graph} {
        for (const generators::level& each : generators::levels())
            if (!kernel && runs(each.name))
                kernel = std::make_unique<generators::jit_kernel>(
                    generators::kernels_of({&of, 1}, {.targets = {std::string(each.name)},
                                                      .dtypes = {"f32"},
                                                      .depths = {"64x32"},
                                                      .shapes = {"decode"}})
                        .front());
    }
    const kernel_table& table() const { return kernel->table(); }
    generators::variant of;
    std::unique_ptr<generators::jit_kernel> kernel;
};

std::optional<std::int64_t> visible(const graph_ir& graph) {
    const auto facts = generators::facts_of(graph);
    const auto seen = generators::visible_keys(*facts);
    return seen && seen->constant() ? std::optional(seen->most.constant) : std::nullopt;
}
}  // namespace

TEST_CASE("the keys that a query sees are counted where a formula bounds them by a constant", "[splits]") {
    CHECK(visible(ir_of<last_keys>) == 128);
    CHECK(visible(ir_of<both_sides>) == 8);
    CHECK(visible(ir_of<every_third>) == 4096);
    CHECK(visible(ir_of<whole>) == std::nullopt);
    CHECK(visible(ir_of<causal_alone>) == std::nullopt);
    CHECK(visible(ir_of<first_and_last>) == 132);
    CHECK(visible(ir_of<causal_first_and_last>) == 132);
    CHECK(visible(ir_of<first_or_every_third>) == std::nullopt);
    CHECK(visible(ir_of<by_head>) == std::nullopt);
}

TEST_CASE("what a window hides is not shared out among splits", "[splits]") {
    const compiled window(ir_of<last_keys>), sinks(ir_of<first_and_last>), all(ir_of<whole>);
    const auto splits = [](const compiled& kernel, std::int64_t keys) {
        workload call(kernel.of.graph,
                      {.heads = 8, .key_heads = 4, .queries = 1, .keys = keys, .depth = 64, .value_depth = 32}, 8);
        attune::detail::call(kernel.table(), call.arguments(), {.threads = 2});
        CHECK(call.largest_error(call.expected(), "out") < 5e-5);
        return attune::detail::explain(kernel.table(), call.arguments(), {}).key_splits;
    };
    CHECK(splits(all, 4096) == 8);
    CHECK(splits(window, 4096) == 1);
    CHECK(splits(window, 100) == 1);
    CHECK(splits(sinks, 4096) == 1);
}

TEST_CASE("a window whose width the call passes is shared out as one of a constant", "[splits]") {
    const compiled window(ir_of<of_the_call>), sinks(ir_of<first_of_the_call>);
    const auto splits = [](const compiled& kernel, std::map<std::string, double> numbers) {
        workload call(kernel.of.graph,
                      {.heads = 8, .key_heads = 4, .queries = 1, .keys = 4096, .depth = 64, .value_depth = 32}, 8,
                      std::move(numbers));
        attune::detail::call(kernel.table(), call.arguments(), {.threads = 2});
        CHECK(call.largest_error(call.expected(), "out") < 5e-5);
        return attune::detail::explain(kernel.table(), call.arguments(), {}).key_splits;
    };
    CHECK(splits(window, {{"left", 127}, {"right", 0}}) == 1);
    CHECK(splits(window, {{"left", 1023}, {"right", 0}}) == 8);
    CHECK(splits(window, {{"left", -1}, {"right", 0}}) == 16);  // without a limit
    CHECK(splits(window, {{"left", std::numeric_limits<int>::max()}, {"right", -1}}) == 16);
    CHECK(splits(window, {{"left", 0}, {"right", 0}}) == 1);
    CHECK(splits(sinks, {{"left", 127}, {"sinks", 4}}) == 1);
    CHECK(splits(sinks, {{"left", 127}, {"sinks", 4000}}) == 8);
}

TEST_CASE("short sequences in many slots are neither cut nor given to other threads", "[splits]") {
    const compiled kernel(ir_of<whole>);
    workload call(
        ir_of<whole>,
        {.batches = 2, .heads = 8, .key_heads = 4, .queries = 1, .keys = 2048, .depth = 64, .value_depth = 32}, 8);
    const auto run = [&](std::vector<std::int32_t> lengths) {
        call.set_lengths(std::move(lengths));  // NaN behind them
        call.reset_outputs();
        int tasks = 0;
        const std::function<void()> counts = [&] { ++tasks; };
        attune::detail::call(kernel.table(), call.arguments(), {.threads = 1, .between_tasks = &counts});
        CHECK(call.largest_error(call.expected(), "out") < 5e-5);
        return tasks - 2 * 8;  // but for those that write the rows of each head
    };
    const auto threads = [&] {
        return attune::detail::explain(kernel.table(), call.arguments(), {.threads = 2}).threads;
    };
    CHECK(run({2048, 700}) == 2 * 4 * 4);
    CHECK(threads() == 2);
    CHECK(run({300, 256}) == 2 * 4);
    CHECK(run({0, 32}) == 2 * 4);
    CHECK(threads() == 1);
    CHECK(run({0, 0}) == 2 * 4);
}

TEST_CASE("softmaxes that read the same rows share the tasks of decode", "[cores][splits]") {
    const auto tasks = [](const graph_ir& graph) {
        const compiled kernel(graph);
        workload call(graph, {.heads = 8, .key_heads = 4, .queries = 2, .keys = 700, .depth = 64, .value_depth = 32},
                      8);
        int done = 0;
        const std::function<void()> counts = [&] { ++done; };
        attune::detail::call(kernel.table(), call.arguments(), {.threads = 1, .between_tasks = &counts});
        const auto expected = call.expected();
        std::vector<std::vector<float>> alone;
        for (const output_declaration& output : graph.outputs) {
            CHECK(call.largest_error(expected, output.name) < 5e-5);
            alone.push_back(call[output.name].reals);
        }
        call.reset_outputs();
        attune::detail::call(kernel.table(), call.arguments(), {.threads = 3});
        for (std::size_t i = 0; i < alone.size(); ++i) CHECK(call[graph.outputs[i].name].reals == alone[i]);
        CHECK(attune::detail::explain(kernel.table(), call.arguments(), {}).key_splits == 3);
        return done;
    };
    const int of_outputs = 8 * 2, of_keys = 4 * 3;
    CHECK(tasks(ir_of<whole>) == of_outputs + of_keys);
    CHECK(tasks(ir_of<same_values>) == of_outputs + of_keys);
    CHECK(tasks(ir_of<same_keys>) == of_outputs + of_keys);
    CHECK(tasks(ir_of<nothing_shared>) == of_outputs + 2 * of_keys);
    CHECK(tasks(ir_of<other_numbers>) == of_outputs + 2 * of_keys);
}
