#include "kernel/kernel_list.hpp"
#include "variants.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <vector>

using namespace attune;
using namespace attune::generators;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
namespace g = golden_gradients;

namespace {

/// Asks for the kernels of a gradient.
std::size_t kernels(const graph_ir& graph, const char* target = "x86-64-v3", const char* dtype = "f32") {
    const std::vector<variant> variants{{"my::gradient", graph}};
    build_request build;
    build.shapes = {"prefill"}, build.dtypes = {dtype}, build.depths = {"32"}, build.targets = {target};
    return kernels_of(variants, build).size();
}

template <const auto& Graph> void refuses(const char* sentence) {
    CHECK_THROWS_MATCHES(kernels(dsl::ir_of<Graph>), std::runtime_error, MessageMatches(ContainsSubstring(sentence)));
}

}  // namespace

TEST_CASE("what has no kernel for its gradient yet is refused when kernels are asked for") {
    CHECK(kernels(dsl::ir_of<g::alibi_gradient>) == 1);
    refuses<g::bias_shared_gradient>("the gradient \"dbias\" yet: its index depends on the query and on the key");
    refuses<g::relative_table_gradient>("the gradient \"dtable\" yet: its index depends on the query and on the key");
    refuses<g::weight_factor_gradient>("the gradient \"dfactor\" yet: its index depends on the query and on the key");
    refuses<g::gate_gradient>("the gradient \"dgate\" yet: it is of rows and channels");
    refuses<g::mla_rope_gradient>("_rope\" yet: it is more than numbers of pairs times rows of a tensor");
    refuses<g::quantised_cache_gradient>("attune makes no kernel for");
    refuses<g::rope_gradient>("attune makes no kernel for");
}

TEST_CASE("gradients are f32, on CPUs") {
    const graph_ir graph = dsl::ir_of<g::causal_gradient>;
    CHECK_THROWS_MATCHES(
        kernels(graph, "x86-64-v3", "bf16"), std::runtime_error,
        MessageMatches(ContainsSubstring("attune makes gradients of f32 only yet, got bf16; try DTYPES f32")));
    CHECK_THROWS_MATCHES(kernels(graph, "opencl"), std::runtime_error,
                         MessageMatches(ContainsSubstring("no gradients on a GPU yet; try TARGETS of CPUs")));
}
