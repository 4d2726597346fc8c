// Gradients on the device of ATTUNE_GOLDEN_TARGET. The program has kernels for it alone.
#include "gradient_errors.hpp"
#include "variants.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <cstring>
#include <vector>

using namespace attune;
using namespace attune::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using support::shape;
namespace g = golden_gradients;

TEST_CASE("a device's gradients agree with the reference at any shape", "[kernels]") {
    const shape usual{.batches = 2, .heads = 4, .key_heads = 2, .queries = 67, .keys = 101};
    for (const std::int64_t length : {1, 65}) {
        shape s = usual;
        s.queries = s.keys = length;
        INFO(s.text());
        CHECK(error_of<g::causal_only, g::causal_gradient>(s) <= allowed);
    }
    CHECK(error_of<g::full, g::full_gradient>(usual, {0, 77}) <= allowed);
    shape s = usual;
    s.gaps = true;
    CHECK(error_of<g::full, g::full_gradient>(s) <= allowed);
    s.queries = 0;
    CHECK(error_of<g::full, g::full_gradient>(s) == 0);
    s.queries = 5, s.keys = 0;
    CHECK_THROWS_MATCHES(
        (error_of<g::full, g::full_gradient>(s)), error,
        MessageMatches(ContainsSubstring("expected a key at least in a gradient on a GPU, got none; try a CPU")));
}

TEST_CASE("the bits of a device's gradients do not depend on the run, and what is masked adds nothing", "[kernels]") {
    const shape s{.batches = 1, .heads = 2, .key_heads = 1, .queries = 70, .keys = 70};
    gradient_call call(dsl::ir_of<g::causal_only>, dsl::ir_of<g::causal_gradient>, s, 3);
    call.run(detail::table_of<g::causal_gradient>(), {.threads = 2, .target = target});
    const auto first = call.results;
    call.run(detail::table_of<g::causal_gradient>(), {.threads = 1, .target = target});
    for (std::size_t i = 0; i < first.size(); ++i) {
        INFO(first[i].name);
        CHECK(std::memcmp(first[i].reals.data(), call.results[i].reals.data(), first[i].size * sizeof(float)) == 0);
    }
    // The last key is seen by the last query alone.
    std::vector<float>& values = call.inputs["v"].reals;
    values[values.size() - 1] = std::nanf("");
    const reference::results expected =
        reference::evaluate(call.graph, call.by_reference, {.depth = s.depth, .value_depth = s.value_depth});
    call.run(detail::table_of<g::causal_gradient>(), {.threads = 2, .target = target});
    CHECK(elements_unlike(call, expected, allowed) == 0);
}

// For PTX_COUNT (tests/gpu/cuda/device/README.md): a call whose launches are worth counting.
TEST_CASE("a call of one head, 512 queries and 512 keys", "[.count]") {
    const shape s{.batches = 1, .heads = 1, .key_heads = 1, .queries = 512, .keys = 512};
    CHECK(error_of<g::full, g::full_gradient>(s) <= allowed);
}
