// The cost of a layer: each node once, and the memory and work that explain prints.
#include "in_process.hpp"
#include "layers.hpp"
#include "lower.hpp"

#include <attune/runtime/error.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <set>
#include <sstream>

using namespace attune;
using namespace attune::testing;

namespace {

/// The functions of a compiled kernel whose names begin so.
std::set<std::string> functions_of(const graph_ir& graph, const std::string& prefix) {
    const generators::variant variant{"layer", graph};
    const auto made =
        generators::kernels_of({&variant, 1}, {.targets = {levels_here().front()}, .dtypes = {"f32"}, .depths = {"16"}})
            .front();
    std::ostringstream text;
    text << generators::lower(made.request).module("layer", Halide::Target("x86-64-linux-avx2-fma"));
    std::set<std::string> names;
    const std::string line = "produce " + prefix, all = text.str();
    for (std::size_t at = all.find(line); at != std::string::npos; at = all.find(line, at + 1))
        names.insert(all.substr(at + 8, all.find_first_of(" {\n", at + 8) - at - 8));
    return names;
}

explanation explained(const graph_ir& graph, std::int64_t batches, std::int64_t length) {
    const in_process kernel("layer", graph, "16", levels_here().front());
    support::workload call(graph,
                           {.batches = batches,
                            .heads = 2,
                            .key_heads = 2,
                            .queries = length,
                            .keys = length,
                            .depth = 16,
                            .value_depth = 16},
                           1, {{"p", 0.0}}, {{"model", 32}, {"", 32}, {"hidden", 77}});
    detail::call(kernel.table(), call.arguments(), {});
    return detail::explain(kernel.table(), call.arguments(), {});
}

}  // namespace

TEST_CASE("a node that is used several times is computed once") {
    // q and k are read by the pass that makes the output and by the one that makes the weights; q, k, v and an output
    // of tokens.
    CHECK(functions_of(dsl::ir_of<layers::plain>, "product_").size() == 4);
    CHECK(functions_of(dsl::ir_of<layers::uses_thrice>, "product_").size() == 2);
    const auto tensors = functions_of(dsl::ir_of<layers::uses_thrice>, "computed_");
    CHECK(tensors.size() == 5);  // the tokens, the queries, keys and values that are made of them, and the output
}

TEST_CASE("explain counts projections, and the tensors that they make") {
    const std::int64_t batches = 3, length = 40, width = 32, floats = 4;
    const explanation said = explained(dsl::ir_of<layers::plain>, batches, length);
    const std::int64_t sequence = batches * length * width;
    CHECK(said.flops == static_cast<double>(4 * 2 * sequence * width + 2 * 2 * batches * length * length * width));
    CHECK(said.tensor_bytes ==
          static_cast<std::size_t>(3 * sequence * floats));  // q, k and v; the last projection writes the output
    CHECK(said.saved_bytes ==
          static_cast<std::size_t>(sequence * floats));  // what the heads make, merged by the last projection
    CHECK(said.workspace_bytes >= said.tensor_bytes + said.packed_bytes + said.saved_bytes + said.scratch_bytes);
    CHECK(said.text().find("of tensors computed in full") != std::string::npos);
}

TEST_CASE("a tensor computed in full that a kernel cannot count is refused before anything is written") {
    const graph_ir graph = dsl::ir_of<layers::feed_forward>;
    const in_process kernel("layer", graph, "16", levels_here().front());
    support::workload call(graph,
                           {.heads = 2, .key_heads = 2, .queries = 9000, .keys = 9000, .depth = 16, .value_depth = 16},
                           1, {}, {{"model", 32}, {"", 32}, {"hidden", 60000}});
    const auto refused = Catch::Matchers::MessageMatches(Catch::Matchers::Equals(
        "attune: expected at most 2147483647 bytes of each tensor that the kernel computes in full, and of its "
        "factors, got 2160000000; try fewer batch elements or positions a call"));
    CHECK_THROWS_MATCHES(detail::call(kernel.table(), call.arguments(), {}), attune::error, refused);
    CHECK_THROWS_MATCHES(detail::explain(kernel.table(), call.arguments(), {}), attune::error, refused);
}
