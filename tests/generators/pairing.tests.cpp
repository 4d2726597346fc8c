// Products of bf16 two at a time, as the level x86-64-v4-bf16 makes them with vdpbf16ps, and by tiles, as x86-64-v4-amx
// does: the same stages compiled for what this machine runs, where the pairs are added up in f32.
#include "../kernels/types.hpp"
#include "../support/workload_values.hpp"

#include "codegen/halide_target.hpp"
#include "kernel/cpu_schedule.hpp"
#include "lower.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/runtime/cpu.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace attune;
using namespace attune::generators;

namespace {

listed_kernel paired(const variant& of, const std::string& depths, int pairing, const std::string& types = "bf16") {
    for (const level& each : levels())
        if (runs(each.name)) {
            listed_kernel kernel =
                kernels_of({&of, 1}, {.targets = {std::string(each.name)}, .dtypes = {types}, .depths = {depths}})
                    .front();
            auto& cut = std::get<cpu_prefill>(kernel.request.schedule);
            if (pairing == bf16_of_tile)
                cut = default_cpu_prefill(each, kernel.request.depths, kernel.request.facts->hides, pairing);
            cut.pairing = pairing;
            return kernel;
        }
    throw std::runtime_error("no ISA level of attune's runs on this machine");
}

/// Loops over the two keys of a step in which sums of values ask whether what masks hide matters.
class loops_that_look : public Halide::Internal::IRVisitor {
public:
    int count = 0;

protected:
    using IRVisitor::visit;
    void visit(const Halide::Internal::For* loop) override {
        count += loop->name.find(".looked_at$x") != std::string::npos;
        IRVisitor::visit(loop);
    }
};

}  // namespace

TEST_CASE("pairs of bf16 are within the bound of weights that are rounded to bf16") {
    const variant v{"under_test::mixed", dsl::ir_of<under_test::mixed>};
    for (const auto& [depths, pairing] : {std::pair("64", 2), std::pair("32x20", 2), std::pair("64", bf16_of_tile),
                                          std::pair("32x48", bf16_of_tile), std::pair("128", bf16_of_tile)}) {
        const listed_kernel kernel = paired(v, depths, pairing);
        const jit_kernel compiled(kernel);
        const auto& [depth, value_depth] = kernel.request.depths;
        const auto of = [&](std::int64_t b, std::int64_t h, std::int64_t kh, std::int64_t lq, std::int64_t lk,
                            bool gaps = false) {
            return support::shape{.batches = b,
                                  .heads = h,
                                  .key_heads = kh,
                                  .queries = lq,
                                  .keys = lk,
                                  .depth = depth,
                                  .value_depth = value_depth,
                                  .gaps = gaps};
        };
        unsigned seed = 90;
        for (const support::shape& s :
             {of(1, 1, 1, 40, 1), of(2, 4, 2, 67, 130, true), of(1, 2, 1, 193, 301), of(1, 6, 2, 49, 513, true)}) {
            support::workload call(v.graph, s, ++seed);
            for (const char* name : {"q", "k", "v", "out"}) call.convert(name, element_type::bf16);
            call.reset_outputs();
            detail::call(compiled.table(), call.arguments(), {});
            INFO(depths << " pairing " << pairing << " " << s.text());
            CHECK(outputs_untouched(call, true));
            const reference::results expected = call.expected();
            // Weights and the output are rounded to 8 bits each; values are below 6.
            CHECK(call.largest_error(expected, "out") <= 2e-5 + 0x1p-8 * 6 + 0x1p-8 * 6);
            CHECK(call.largest_error(expected, "lse") <= 0x1p-8);
            double sum = 0, count = 0;  // and on average far below
            const std::vector<double>& right = expected["out"].values;
            std::size_t i = 0;
            support::for_each_offset(call.view("out"), [&](std::int64_t at) {
                bfloat16 x;
                x.bits = call["out"].halves[static_cast<std::size_t>(at)];
                sum += std::abs(static_cast<double>(float(x)) - right[i++]), ++count;
            });
            CHECK(sum / count <= 2e-3);
        }
    }
}

TEST_CASE("sums of pairs ask once a step whether what a mask hides matters, not for each vector of the tile") {
    const variant v{"under_test::mixed", dsl::ir_of<under_test::mixed>};
    const listed_kernel kernel = paired(v, "64", 2);
    const Halide::Module module = lower(kernel.request).module("paired", halide_target(*kernel.request.target));
    loops_that_look found;
    for (const auto& function : module.functions()) function.body.accept(&found);
    CHECK(found.count == 1);
}

TEST_CASE("one key is its value, whatever is rounded") {
    const variant v{"under_test::mixed", dsl::ir_of<under_test::mixed>};
    for (const int pairing : {2, bf16_of_tile}) {
        const jit_kernel compiled(paired(v, "32", pairing));
        support::workload call(
            v.graph, {.heads = 3, .key_heads = 3, .queries = 1, .keys = 1, .depth = 32, .value_depth = 32}, 3);
        for (const char* name : {"q", "k", "v", "out"}) call.convert(name, element_type::bf16);
        detail::call(compiled.table(), call.arguments(), {});
        CHECK(call["out"].halves == call["v"].halves);
    }
}

TEST_CASE("what cannot be paired is refused") {
    const variant mixed{"under_test::mixed", dsl::ir_of<under_test::mixed>},
        formed{"under_test::formed", dsl::ir_of<under_test::formed>};
    CHECK_THROWS_AS(jit_kernel(paired(mixed, "32", 2, "f16")), std::runtime_error);
    CHECK_THROWS_AS(jit_kernel(paired(mixed, "5", 2)), std::runtime_error);
    CHECK_THROWS_AS(jit_kernel(paired(formed, "32", 2)), std::runtime_error);
    CHECK_THROWS_AS(jit_kernel(paired(mixed, "16", bf16_of_tile)), std::runtime_error);
    CHECK_THROWS_AS(jit_kernel(paired(formed, "32", bf16_of_tile)), std::runtime_error);
}
