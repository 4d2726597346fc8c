// The maximum of a row's scores as an output: where a score is NaN, whichever key it is of and however keys are cut.
#include "kernel/kernel_list.hpp"
#include "tested_levels.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <array>
#include <cmath>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;
inline constexpr auto scores = mask(q * t(k) * rsqrt(depth), kv_idx <= q_idx + 90);
inline constexpr auto beside_softmax =
    outputs(out = softmax(scores) * v, lse = log_sum_exp(scores), output<"top"> = row_maximum(scores));
inline constexpr auto beside_sums = outputs(out = unnormalized(scores) * v, output<"top"> = row_maximum(scores));
inline constexpr auto alone = outputs(output<"top"> = row_maximum(scores));

struct graph {
    const char* name;
    graph_ir ir;
};
const std::array graphs{graph{"beside_softmax", ir_of<beside_softmax>}, graph{"beside_sums", ir_of<beside_sums>},
                        graph{"alone", ir_of<alone>}};
}  // namespace

TEST_CASE("a NaN that a row sees is its maximum, of whichever key it is; one that it does not see is nothing") {
    const support::shape shape{.batches = 1, .heads = 2, .key_heads = 1, .queries = 3, .keys = 300};
    for (const graph& of : graphs)
        for (const generators::level& level : testing::tested_levels())
            for (const char* kind : {"prefill", "decode"}) {
                if (level.is_gpu || !runs(level.name) || level.is_for_bf16()) continue;
                const generators::variant variant{of.name, of.ir};
                const generators::jit_kernel kernel(
                    generators::kernels_of(
                        {&variant, 1},
                        {.targets = {std::string(level.name)}, .dtypes = {"f32"}, .depths = {"32"}, .shapes = {kind}})
                        .front());
                for (const std::size_t key : {0, 7, 64, 89, 91, 92, 299}) {
                    workload call(of.ir, shape, 5);
                    call["k"].reals[key * 32 + 11] = std::nanf("");
                    INFO(of.name << ' ' << level.name << ' ' << kind << ", key " << key);
                    const auto expected = call.expected();
                    attune::detail::call(kernel.table(), call.arguments(), {.threads = 2});
                    for (int row = 0; row < 6; ++row) {
                        CAPTURE(of.name, level.name, kind, key, row);
                        const float top = call["top"].reals[static_cast<std::size_t>(row)];
                        CHECK(std::isnan(top) == (static_cast<int>(key) <= row % 3 + 90));
                        const double wanted = expected["top"].values[static_cast<std::size_t>(row)];
                        if (!std::isnan(top)) CHECK(std::abs(top - wanted) <= 2e-5);
                    }
                }
            }
}
