// Kernels compiled in this process are called as linked ones are.
#include "tuned_variants.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <thread>

using namespace attune;
using testing::causal;

TEST_CASE("a kernel compiled in process agrees with the reference, on one thread and on several") {
    const generators::jit_kernel kernel(testing::kernel_of(causal, "16", testing::best_level_here()));
    for (const int threads : {1, 3}) {
        support::workload call(
            causal.graph,
            {.batches = 2, .heads = 2, .key_heads = 1, .queries = 131, .keys = 259, .depth = 16, .value_depth = 16}, 7);
        attune::detail::call(kernel.table(), call.arguments(), {.threads = threads});
        CHECK(call.largest_error(call.expected(), "out") < 2e-5);
    }
}

TEST_CASE("kernels are compiled by several threads at a time") {
    const generators::listed_kernel list[] = {testing::kernel_of(causal, "8", testing::best_level_here()),
                                              testing::kernel_of(causal, "16", testing::best_level_here())};
    std::unique_ptr<generators::jit_kernel> kernels[2];
    std::thread other([&] { kernels[0] = std::make_unique<generators::jit_kernel>(list[0]); });
    kernels[1] = std::make_unique<generators::jit_kernel>(list[1]);
    other.join();
    for (int i = 0; i < 2; ++i) {
        const int depth = list[i].request.depths.depth;
        support::workload call(causal.graph, {.queries = 50, .keys = 70, .depth = depth, .value_depth = depth}, 8);
        attune::detail::call(kernels[i]->table(), call.arguments(), {.threads = 1});
        CHECK(call.largest_error(call.expected(), "out") < 2e-5);
    }
}
