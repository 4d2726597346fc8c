// Kernels compiled in this process are called as linked ones are.
#include "jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/call.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <thread>

using namespace attune;

namespace {
using namespace attune::dsl;
inline constexpr auto causal_attention = softmax(mask(q * t(k) * rsqrt(depth), causal)) * v;

const generators::level& best_level() {
    for (const generators::level& each : generators::levels())
        if (runs(each.name)) return each;
    throw std::runtime_error("no ISA level of attune's runs on this machine");
}
}  // namespace

TEST_CASE("a kernel compiled in process agrees with the reference, on one thread and on several") {
    const generators::variant causal{"causal_attention", listing_of<causal_attention>};
    const auto list = generators::kernels_of({&causal, 1}, {.targets = {std::string(best_level().name)}, .dtypes = {"f32"}, .depths = {"16"}});
    const generators::jit_kernel kernel(list.front());
    for (const int threads : {1, 3}) {
        support::workload call(causal.graph, {.batches = 2, .heads = 2, .key_heads = 1, .queries = 131, .keys = 259, .depth = 16, .value_depth = 16}, 7);
        attune::detail::call(kernel.table(), call.arguments(), {.threads = threads});
        CHECK(call.largest_error(call.expected(), "out") < 2e-5);
    }
}

TEST_CASE("kernels are compiled by several threads at a time") {
    const generators::variant causal{"causal_attention", listing_of<causal_attention>};
    const auto list = generators::kernels_of({&causal, 1}, {.targets = {std::string(best_level().name)}, .dtypes = {"f32"}, .depths = {"8", "16"}});
    std::unique_ptr<generators::jit_kernel> kernels[2];
    std::thread other([&] { kernels[0] = std::make_unique<generators::jit_kernel>(list.at(0)); });
    kernels[1] = std::make_unique<generators::jit_kernel>(list.at(1));
    other.join();
    for (int i = 0; i < 2; ++i) {
        const int depth = list.at(static_cast<std::size_t>(i)).request.depths.depth;
        support::workload call(causal.graph, {.queries = 50, .keys = 70, .depth = depth, .value_depth = depth}, 8);
        attune::detail::call(kernels[i]->table(), call.arguments(), {.threads = 1});
        CHECK(call.largest_error(call.expected(), "out") < 2e-5);
    }
}
