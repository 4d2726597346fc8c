// The tests of kernels.tests.cpp for three more graphs.
#include "gradient_errors.hpp"
#include "variants.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace attune;
using namespace attune::testing;
using support::shape;
namespace g = golden_gradients;

TEST_CASE("more of what is placed by an index agrees with the reference at any shape", "[kernels]") {
    for (const std::int64_t length : {1, 97}) {
        const shape s{.batches = 2, .heads = 2, .key_heads = 1, .queries = length, .keys = length};
        INFO(s.text());
        CHECK(error_of<g::t5_buckets, g::t5_buckets_gradient>(s) <= allowed);
        CHECK(error_of<g::mla_rope, g::mla_rope_gradient>(s) <= allowed);
    }
    const shape s{.batches = 2, .heads = 6, .key_heads = 2, .queries = 67, .keys = 101};
    CHECK(error_of<g::bias_batch_heads, g::bias_batch_heads_gradient>(s, {0, 77}) <= allowed);
}
