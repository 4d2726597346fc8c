// Calls on threads whose stack is small, such as those of coroutines, of other languages and of musl.
#include "../gradients/gradient_call.hpp"
#include "../support/small_stack.hpp"
#include "stack_calls.hpp"
#include "stack_formulas.hpp"

#include <attune/dsl.hpp>
#include <attune/dsl/layers.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

using namespace attune;
using support::workload;

namespace {
namespace formulas {
using namespace attune::dsl;

inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto masked = mask(q * t(k) * rsqrt(depth) + slopes(h) * (kv_idx - q_idx), causal_bottom_right);
inline constexpr auto alibi = outputs(out = softmax(masked) * v, lse = log_sum_exp(masked));
inline constexpr auto pairs = outputs(out = softmax(masked) * v, output<"scores"> = masked,
                                      output<"received"> = sum_over_queries(softmax(masked)));
inline constexpr auto x = input<"x", f32>(batch, position, axis<"model">);
inline constexpr auto w = input<"w", f32>(axis<"three">, axis<"model">);
inline constexpr auto qkv = linear(x, w);
inline constexpr auto layer =
    merge_heads(softmax(split_heads(part<0, 3>(qkv), 2) * t(split_heads(part<1, 3>(qkv), 2)) * rsqrt(depth)) *
                split_heads(part<2, 3>(qkv), 2));
inline constexpr auto bytes = input<"bytes", u8>(batch, key_head, key, depth);
inline constexpr auto cache = softmax(q * t(keys(as_real(bytes(b, h, kv_idx, d_idx)) - 128.0)) * rsqrt(depth)) * v;
inline constexpr auto shifted =
    queries(q(b, h, q_idx, d_idx) + where(d_idx % 2 == 0, -q(b, h, q_idx, d_idx + 1), q(b, h, q_idx, d_idx - 1)));
inline constexpr auto computed_scores = shifted * t(keys(k(b, h, kv_idx, d_idx) * 0.5)) * rsqrt(depth);
inline constexpr auto computed =
    outputs(out = softmax(computed_scores) * values(v(b, h, kv_idx, d_idx) * 2.0), lse = log_sum_exp(computed_scores));
inline constexpr auto alibi_gradient = gradient(alibi);
inline constexpr auto differential = outputs(out = softmax(masked) * v - slopes(h) * (softmax(computed_scores) * v),
                                             lse = log_sum_exp(masked), output<"other"> = log_sum_exp(computed_scores));
}  // namespace formulas

struct kind_of_call {
    const char* name;
    graph_ir graph;
    std::string types, depths, shapes;
    std::int64_t queries;
};

void check(const kind_of_call& of, const kernel_table& kernel) {
    const std::int64_t depth = std::stoi(of.depths);
    workload call(of.graph,
                  {.batches = 2,
                   .heads = 2,
                   .key_heads = 2,
                   .queries = of.queries,
                   .keys = 300,
                   .depth = depth,
                   .value_depth = depth},
                  3, {}, {{"model", 2 * depth}, {"three", 6 * depth}, {"", 2 * depth}});
    for (const char* const name : {"q", "k", "v", "out"})
        if (of.types != "f32" && std::ranges::any_of(of.graph.inputs, [&](const input_declaration& input) {
                return input.name == name || std::string_view(name) == "out";
            }))
            call.convert(name, of.types == "bf16" ? element_type::bf16 : element_type::f16);
    stack::check_calls(kernel, call.arguments());
}

void check(const kind_of_call& of, const std::string& level) {
    INFO(of.name << ", " << of.types << ", depth " << of.depths << ", " << of.shapes << ", for " << level);
    const generators::variant variant{"my::variant", of.graph};
    check(of, stack::kernel_of(variant, of.types, of.depths, of.shapes, level).table());
}

/// Each kernel of a graph that is linked and runs here.
void check_linked(const kind_of_call& of, const kernel_table& table) {
    int checked = 0;
    for (const kernel& each : table.kernels) {
        if (!runs(each.target) || each.query != (of.types == "f16" ? element_type::f16 : element_type::f32)) continue;
        INFO(of.name << ", " << of.types << ", linked for " << each.target);
        kernel_table alone = table;
        alone.kernels = {&each, 1};
        check(of, alone), ++checked;
    }
    CHECK(checked > 0);
}

void check_gradient(const kind_of_call& of, const graph_ir& forward, const std::string& level) {
    INFO("gradient of " << of.name << ", " << of.types << ", depth " << of.depths << ", for " << level);
    const generators::variant variant{"my::gradient", of.graph};
    const generators::jit_kernel kernel = stack::kernel_of(variant, of.types, of.depths, of.shapes, level);
    const std::int64_t depth = std::stoi(of.depths);
    const testing::gradient_call call(forward, of.graph,
                                      {.batches = 1,
                                       .heads = 2,
                                       .key_heads = 1,
                                       .queries = of.queries,
                                       .keys = 70,
                                       .depth = depth,
                                       .value_depth = depth},
                                      3, {}, of.types == "bf16" ? element_type::bf16 : element_type::f32);
    stack::check_calls(kernel.table(), call.arguments);
}

}  // namespace

namespace {

/// What differs most from level to level.
void check_at(const std::string& level) {
    using dsl::ir_of;
    const kind_of_call everywhere[] = {{"alibi", ir_of<formulas::alibi>, "bf16", "128", "prefill", 300},
                                       {"alibi", ir_of<formulas::alibi>, "f32", "128", "decode", 1},
                                       {"pairs", ir_of<formulas::pairs>, "f32", "64", "prefill", 300},
                                       {"computed", ir_of<formulas::computed>, "bf16", "16", "prefill", 300}};
    const std::pair<kind_of_call, graph_ir> gradients[] = {
        {{"alibi", ir_of<formulas::alibi_gradient>, "bf16", "128", "prefill", 70}, ir_of<formulas::alibi>},
        {{"long_formula", ir_of<stack::long_gradient>, "f32", "64", "prefill", 70}, ir_of<stack::trained>}};
    for (const kind_of_call& of : everywhere) check(of, level);
    for (const auto& [of, forward] : gradients) check_gradient(of, forward, level);
}

}  // namespace

TEST_CASE("every kind of call runs on a stack of 32 KB, and takes what explain says", "[stack]") {
    if (testing::frames_grow) SKIP("sanitizers make frames larger");
    using dsl::ir_of;
    const std::string level = stack::levels_here().front();
    const kind_of_call once[] = {{"alibi", ir_of<formulas::alibi>, "f32", "128", "prefill", 300},
                                 {"alibi", ir_of<formulas::alibi>, "f32", "256", "prefill", 1},
                                 {"alibi", ir_of<formulas::alibi>, "bf16", "64", "decode", 5},
                                 {"cache", ir_of<formulas::cache>, "f32", "128", "decode", 1},
                                 {"layer", ir_of<formulas::layer>, "f32", "64", "prefill", 300},
                                 {"differential", ir_of<formulas::differential>, "bf16", "64", "prefill", 300},
                                 {"eight softmaxes", ir_of<stack::eight>, "f32", "128", "decode", 1}};
    for (const kind_of_call& of : once) check(of, level);
    check_at(level);
    check_linked({"drawn", ir_of<stack::drawn>, "f32", "64", "prefill", 300}, detail::table_of<stack::drawn>());
    for (const char* const type : {"f32", "f16"})
        check_linked({"long_pairs", ir_of<stack::long_pairs>, type, "64", "prefill", 300},
                     detail::table_of<stack::long_pairs>());
    check_linked({"eight softmaxes", ir_of<stack::eight>, "f32", "128", "prefill", 300},
                 detail::table_of<stack::eight>());
}

TEST_CASE("calls run on a stack of 32 KB at every level", "[stack][.long]") {
    if (testing::frames_grow) SKIP("sanitizers make frames larger");
    const std::vector<std::string> levels = stack::levels_here();
    for (const std::string& level : levels) check_at(level);
}
