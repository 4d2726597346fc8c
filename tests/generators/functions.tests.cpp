// Every function of the language in kernels compiled in process, against the reference in double precision.
#include "../kernels/functions.hpp"
#include "../support/workload_values.hpp"
#include "codegen/halide_target.hpp"
#include "kernel/kernel_list.hpp"
#include "lower.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <ctime>
#include <set>

using namespace attune;
using support::workload;

namespace {

generators::listed_kernel listed(const generators::variant& of) {
    std::string level;
    for (const generators::level& each : generators::levels())
        if (level.empty() && runs(each.name)) level = each.name;
    return generators::kernels_of({&of, 1},
                                  {.targets = {level}, .dtypes = {"f32"}, .depths = {"32"}, .shapes = {"prefill"}})
        .front();
}

generators::jit_kernel kernel_of(const generators::variant& of) { return generators::jit_kernel(listed(of)); }

void check(const graph_ir& graph, const std::vector<support::shape>& shapes, int key_block = 0) {
    const generators::variant of{"my::functions", graph};
    generators::listed_kernel made = listed(of);
    auto& cut = std::get<generators::cpu_prefill>(made.request.schedule);
    if (key_block > 0) cut.key_block = cut.key_tile = cut.chunk = cut.value_tile = key_block;
    const generators::jit_kernel kernel(made);
    for (const support::shape& s : shapes)
        for (const bool checked : {false, true}) {
            INFO(s.text() << " " << kernel.table().kernels[0].target);
            workload call(graph, s, 31, {}, {{"entry", 9}});
            attune::detail::call(kernel.table(), call.arguments(), {.threads = 2, .checked = checked});
            const auto expected = call.expected();
            for (const output_declaration& output : graph.outputs) {
                INFO(output.name);
                CHECK(call.largest_error(expected, output.name) < 2e-5);
            }
            CHECK(outputs_untouched(call, true));
        }
}

support::shape of(std::int64_t queries, std::int64_t keys) {
    return {.batches = 2, .heads = 2, .key_heads = 1, .queries = queries, .keys = keys, .depth = 32, .value_depth = 32};
}

}  // namespace

TEST_CASE("functions of scores, of numbers that are read and of rows", "[functions]") {
    check(dsl::ir_of<functions::of_scores>, {of(21, 37)});
    check(dsl::ir_of<functions::of_steps>, {of(21, 37)});
    check(dsl::ir_of<functions::of_rows>, {of(21, 37)});
}

TEST_CASE("functions of masked scores have their limits", "[functions]") {
    check(dsl::ir_of<functions::of_masked>, {of(21, 37)});
}

TEST_CASE("conditions are joined and bounded by functions", "[functions]") {
    check(dsl::ir_of<functions::of_conditions>, {of(21, 37), of(300, 410)});
}

TEST_CASE("these graphs have every function, by the table of operations", "[functions]") {
    std::set<operation> there;
    for (const graph_ir& graph :
         {dsl::ir_of<functions::of_scores>, dsl::ir_of<functions::of_steps>, dsl::ir_of<functions::of_conditions>})
        for (const instruction& node : graph.nodes) there.insert(node.op);
    for (std::size_t each = 0; each < operation_count; ++each) {
        const auto op = static_cast<operation>(each);
        const family of = family_of(op);
        if (of != family::function && of != family::function_of_two && of != family::classification) continue;
        INFO(about(op).text);
        CHECK(there.contains(op));
    }
}

namespace nested {
using namespace attune::dsl;
inline constexpr auto bent = softmax(sin(cos(sin(q * t(k)))) + log1p(exp(tanh(q * t(k))))) * v;
inline constexpr auto near = input<"near", f32>(batch, key);
inline constexpr auto of_key = tanh(acos(0.25 + 0.5 * tanh(acos(0.25 + 0.5 * tanh(near(b, kv_idx))))));
inline constexpr auto deep = softmax(q * t(k) + of_key) * v;
inline constexpr auto power = input<"power", f32>(key_head, axis<"entry">);
inline constexpr auto bent_keys =
    keys(tanh(acos(0.25 + 0.5 * tanh(acos(0.25 + 0.5 * pow(abs(near(b, kv_idx)) + 0.5, tanh(power(h, 0))))))));
inline constexpr auto trained = outputs(out = softmax(q * t(bent_keys)) * v, lse = log_sum_exp(q * t(bent_keys)));
inline constexpr auto placed = gradient(trained, of(out), wrt(power));
/// Where a table of the condition meets the largest i32.
inline constexpr auto steps = as_integer(near(b, kv_idx) * 4.0);
inline constexpr auto saturated =
    softmax(mask(q * t(k), min(kv_idx, where(near(b, kv_idx) < 0.0, steps, 12)) <= (steps << (kv_idx % 3)) % 19)) * v;
/// A cache that has no keys, whatever the call.
inline constexpr auto nowhere = outputs(lse = log_sum_exp(q * t(keys(as_real(kv_idx), 0))));
inline constexpr auto nobody = outputs(lse = log_sum_exp(queries(as_real(q_idx), 0) * t(k)));
inline constexpr auto headless = outputs(lse = log_sum_exp(queries(as_real(q_idx), 7, 0, 32) * t(k)));
/// With numbers of a key, which blocks of few keys look at one by one.
inline constexpr auto by_key = input<"by_key", i32>(batch, key);
inline constexpr auto i = bound_index<"i">;
inline constexpr auto of_any =
    softmax(mask(q * t(k), any(i, 2, by_key(b, kv_idx) >= i || (kv_idx < kv_lengths(b) && causal)))) * v;
/// Sums within sums, and any within any.
inline constexpr auto j = bound_index<"j">;
inline constexpr auto twice = input<"twice", f32>(axis<"first">, axis<"second">);
inline constexpr auto in_sums =
    softmax(mask(q * t(k) + 0.1 * sum(i, 3, sum(j, 4, twice(i, j) * ((kv_idx + i) % (j + 2)))),
                 any(i, 3, any(j, 4, kv_idx / 32 == 3 * i + j && twice(i, j) > 0.0)) || q_idx == kv_idx)) *
    v;
}  // namespace nested

// A function that uses its argument in many places does not write it out in all of them.
TEST_CASE("functions of functions are compiled in seconds") {
    const std::clock_t start = std::clock();
    for (const graph_ir& each : {dsl::ir_of<nested::bent>, dsl::ir_of<nested::deep>})
        check(each, {{.queries = 9, .keys = 23, .depth = 32, .value_depth = 32}});
    const generators::variant of{"my::placed", dsl::ir_of<nested::placed>};
    CHECK(kernel_of(of).table().kernels.size() == 1);
    CHECK(std::clock() - start < 30 * CLOCKS_PER_SEC);
}

TEST_CASE("conditions of integers that saturate, and formulas without keys, have kernels") {
    for (const graph_ir& each : {dsl::ir_of<nested::saturated>, dsl::ir_of<nested::nowhere>})
        check(each, {{.queries = 9, .keys = 23, .depth = 32, .value_depth = 32}});
}

TEST_CASE("formulas without queries or heads have kernels") {
    for (const graph_ir& each : {dsl::ir_of<nested::nobody>, dsl::ir_of<nested::headless>}) {
        const generators::variant of{"my::nobody", each};
        CHECK(kernel_of(of).table().kernels.size() == 1);
    }
}

TEST_CASE("blocks of few keys are looked at a key at a time, and not beyond the last key") {
    for (const int keys : {1, 7, 23})
        check(dsl::ir_of<nested::of_any>, {{.queries = 9, .keys = keys, .depth = 32, .value_depth = 32}}, 4);
}

TEST_CASE("a sum within a sum runs over an index of its own, and so does any within any") {
    check(dsl::ir_of<nested::in_sums>, {of(300, 300)});
}

namespace capped {
using namespace attune::dsl;
inline constexpr auto by_softcap = softmax(softcap(30.0, q* t(k) * 0.125)) * v;
inline constexpr auto by_hand = softmax(tanh(q * t(k) * (0.125 / 30.0)) * 30.0) * v;
}  // namespace capped

namespace {

class products : public Halide::Internal::IRVisitor {
public:
    explicit products(const graph_ir& graph) {
        const generators::variant of{"my::capped", graph};
        const generators::listed_kernel kernel =
            generators::kernels_of(
                {&of, 1}, {.targets = {"x86-64-v3"}, .dtypes = {"f32"}, .depths = {"32"}, .shapes = {"prefill"}})
                .front();
        const Halide::Module module =
            generators::lower(kernel.request).module("capped", generators::halide_target(*kernel.request.target));
        for (const auto& function : module.functions()) function.body.accept(this);
    }
    int count = 0;

protected:
    using IRVisitor::visit;
    void visit(const Halide::Internal::Mul* product) override {
        count += product->type.is_float();
        IRVisitor::visit(product);
    }
};

}  // namespace

TEST_CASE("a cap costs what a tanh does: its constants go into the coefficients") {
    CHECK(products(dsl::ir_of<capped::by_softcap>).count == products(dsl::ir_of<capped::by_hand>).count);
}
