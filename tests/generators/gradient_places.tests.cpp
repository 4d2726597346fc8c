// Gradients of tables that are read by indices of pairs, compiled in process.
#include "../gradients/gradient_call.hpp"
#include "kernel/kernel_list.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>

#include <catch2/catch_test_macros.hpp>

#include <string>

using namespace attune;

namespace {
namespace formulas {
using namespace attune::dsl;

/// One table, read at how far a key lies behind a query, and at how far before.
inline constexpr auto distances = input<"distances", f32>(head, axis<"distance">);
template <class Distance> constexpr auto at(Distance distance) {
    return distances(h, clamp(distance, 0, extent<1>(distances) - 1));
}
inline constexpr auto scores = mask(q * t(k) + at(q_idx - kv_idx) - at(kv_idx - q_idx), kv_idx <= q_idx + 20);
inline constexpr auto attention = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
inline constexpr auto attention_gradient = gradient(attention, of(out), wrt(distances));
}  // namespace formulas
}  // namespace

TEST_CASE("a table that is read twice by indices of pairs has the gradients of both places") {
    for (const generators::level& each : generators::levels()) {
        if (!runs(each.name)) continue;
        const generators::variant variant{"my::gradient", dsl::ir_of<formulas::attention_gradient>};
        const generators::jit_kernel kernel(
            generators::kernels_of({&variant, 1}, {.targets = {std::string(each.name)}, .depths = {"32"}}).front());
        testing::gradient_call call(dsl::ir_of<formulas::attention>, variant.graph,
                                    {.batches = 2, .heads = 4, .key_heads = 2, .queries = 67, .keys = 81}, 7);
        call.run(kernel.table(), 2);
        CHECK(call.error() < 1e-5);
        break;  // one level is enough: the same stages for all
    }
}
