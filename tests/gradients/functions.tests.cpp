// The tests of kernels.tests.cpp for the other graphs of functions.hpp.
#include "functions.hpp"
#include "gradient_errors.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace attune;
using namespace attune::testing;
using support::shape;
namespace g = golden_gradients;

TEST_CASE("gradients of functions agree with the reference", "[kernels]") {
    const shape usual{.batches = 2, .heads = 4, .key_heads = 2, .queries = 67, .keys = 101};
    CHECK(error_of<g::masked_factor, g::masked_factor_gradient>(usual) <= allowed);
    CHECK(error_of<g::masked_weights, g::masked_weights_gradient>(usual, {101, 3}) <= allowed);
    CHECK(error_of<g::masked_bias, g::masked_bias_gradient>(usual) <= allowed);
    CHECK(error_of<g::squared_values, g::squared_values_gradient>(usual) <= allowed);
    CHECK(error_of<g::masked_rows, g::masked_rows_gradient>(usual) <= allowed);
}

TEST_CASE("what is placed by an index in functions agrees with the reference at any shape", "[kernels]") {
    for (const std::int64_t length : {1, 97}) {
        const shape s{.batches = 2, .heads = 2, .key_heads = 1, .queries = length, .keys = length};
        INFO(s.text());
        CHECK(error_of<g::additive, g::additive_gradient>(s) <= allowed);
        CHECK(error_of<g::pairs, g::pairs_gradient>(s) <= allowed);
    }
    const shape s{.batches = 2, .heads = 6, .key_heads = 2, .queries = 67, .keys = 101};
    CHECK(error_of<g::pairs, g::pairs_gradient>(s, {0, 77}) <= allowed);
}
