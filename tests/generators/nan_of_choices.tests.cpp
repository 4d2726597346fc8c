// NaN where a call chooses what is visible, compiled in process, beside the reference: a pair that is not chosen adds
// exactly nothing, whatever its value, and a NaN at a visible pair makes its row NaN.
#include "kernel/kernel_list.hpp"
#include "tested_levels.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/catalogue/selectors.hpp>
#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;

constexpr int size = 16;  // keys and queries of a block
constexpr std::size_t width = 32;
inline constexpr auto count = scalar<"count", i32>;
inline constexpr auto mean_keys = catalogue::mean_of_keys(k, size, depth);
constexpr auto under(expression auto condition) { return softmax(mask(q * t(k) * rsqrt(depth), condition)) * v; }
inline constexpr auto moba = under(catalogue::moba(q, mean_keys, size, count));
inline constexpr auto pooled =
    under(catalogue::pooled_blocks(catalogue::mean_of_queries(q, size), mean_keys, size, count));
/// By numbers that the caller passes, the same for all queries: what is masked stays so whatever q and k are.
inline constexpr auto n = bound_index<"n">;
inline constexpr auto importance = input<"importance", f32>(batch, key_head, axis<"block">);
inline constexpr auto passed = precomputed(importance(b, h, n), n, (key_length + size - 1) / size);
inline constexpr auto listed = under(top_k(passed, count)(b, h, kv_idx / size));

struct chosen {
    chosen(const graph_ir& graph, std::string_view level, const char* shapes, std::int64_t of_queries)
        : of{"my::chosen", graph},
          kernel(
              generators::kernels_of(
                  {&of, 1}, {.targets = {std::string(level)}, .dtypes = {"f32"}, .depths = {"32"}, .shapes = {shapes}})
                  .front()),
          shape{.batches = 2, .heads = 4, .key_heads = 2, .queries = of_queries, .keys = 190} {}

    workload call() const { return {of.graph, shape, 7, {{"count", 3}}, {{"block", 12}}}; }
    std::vector<float> run(workload& call) const {
        call.reset_outputs();
        attune::detail::call(kernel.table(), call.arguments(), {.threads = 2});
        return call["out"].reals;
    }

    generators::variant of;
    generators::jit_kernel kernel;
    support::shape shape;
};

struct found {
    std::size_t wrong = 0;    ///< not as the reference has it
    std::size_t spoilt = 0;   ///< not finite in the reference
    std::size_t changed = 0;  ///< finite in the reference, with other bits than before
    std::size_t kept = 0;     ///< finite in the reference
};

/// `before`: what the same call gives where all is finite.
found compared(const chosen& kernel, workload& call, const std::vector<float>& before) {
    const std::vector<float> out = kernel.run(call);
    const std::vector<double> expected = call.expected()["out"].values;
    found all;
    for (std::size_t at = 0; at < out.size(); ++at) {
        if (!std::isfinite(expected[at])) {
            ++all.spoilt;
            all.wrong += std::isnan(expected[at]) ? !std::isnan(out[at]) : std::isfinite(out[at]);
            continue;
        }
        ++all.kept;
        all.wrong += !(std::abs(out[at] - expected[at]) < 2e-5);
        all.changed += std::memcmp(&out[at], &before[at], sizeof(float)) != 0;
    }
    return all;
}

void for_each_kernel(const graph_ir& graph, const std::function<void(const chosen&)>& check) {
    for (const generators::level& each : testing::tested_levels()) {
        if (!runs(each.name) || each.is_for_bf16()) continue;  // of f32 it has those of the level before
        for (const auto& [shapes, queries] : {std::pair{"prefill", std::int64_t{77}}, {"decode", std::int64_t{2}}}) {
            CAPTURE(each.name, shapes);
            check(chosen(graph, each.name, shapes, queries));
        }
    }
}

const float not_a_number = std::nanf(""), infinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("the value of a key in a block that was not chosen adds exactly nothing, at every level", "[precomputed]") {
    for (const graph_ir* const graph : {&ir_of<moba>, &ir_of<pooled>, &ir_of<listed>})
        for_each_kernel(*graph, [](const chosen& kernel) {
            workload plain = kernel.call();
            const std::vector<float> before = kernel.run(plain);
            std::size_t spoilt = 0, kept = 0;
            for (const float value : {not_a_number, infinity})
                for (const std::size_t key : {5u, 40u, 101u, 130u, 189u}) {
                    workload call = kernel.call();
                    call["v"].reals[key * width + 9] = value;  // of the first key head, which two heads read
                    const found all = compared(kernel, call, before);
                    CAPTURE(value, key);
                    CHECK(all.wrong == 0);
                    CHECK(all.changed == 0);
                    spoilt += all.spoilt, kept += all.kept;
                }
            CHECK((spoilt > 0 && kept > spoilt));
        });
}

TEST_CASE("a NaN in a query makes its row NaN, whatever it chooses, and no other row, at every level",
          "[precomputed]") {
    for (const graph_ir* const graph : {&ir_of<moba>, &ir_of<listed>})  // each query chooses by itself, or none does
        for_each_kernel(*graph, [](const chosen& kernel) {
            workload plain = kernel.call();
            const std::vector<float> before = kernel.run(plain);
            for (const std::size_t query : {std::size_t{0}, static_cast<std::size_t>(kernel.shape.queries) - 1}) {
                workload call = kernel.call();
                call["q"].reals[query * width + 3] = not_a_number;
                const found all = compared(kernel, call, before);
                CAPTURE(query);
                CHECK(all.wrong == 0);
                CHECK(all.changed == 0);
                CHECK(all.spoilt == width);
            }
        });
}

TEST_CASE("a NaN in a query that is pooled with others makes its row NaN, and no other", "[precomputed]") {
    for_each_kernel(ir_of<pooled>, [](const chosen& kernel) {
        workload plain = kernel.call();
        const std::vector<float> before = kernel.run(plain);
        workload call = kernel.call();
        call["q"].reals[width + 3] = not_a_number;
        const found all = compared(kernel, call, before);  // the others of its block may choose otherwise
        CHECK(all.wrong == 0);
        CHECK(all.spoilt == width);
    });
}
