// What a device makes of other tensors of a formula.
#include "gradient_errors.hpp"
#include "variants.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace attune;
using namespace attune::testing;
using support::shape;
namespace g = golden_gradients;

TEST_CASE("a device's gradients of other tensors agree with the reference at any shape", "[kernels]") {
    for (const std::int64_t length : {1, 97}) {
        const shape s{.batches = 2, .heads = 2, .key_heads = 1, .queries = length, .keys = length};
        INFO(s.text());
        CHECK(error_of<g::alibi, g::alibi_gradient>(s) <= 10 * allowed);
        CHECK(error_of<g::bias_heads, g::bias_heads_gradient>(s) <= allowed);
        CHECK(error_of<g::bias_shared, g::bias_shared_gradient>(s) <= allowed);
        CHECK(error_of<g::bias_keys, g::bias_keys_gradient>(s) <= allowed);
        CHECK(error_of<g::rope, g::rope_gradient>(s) <= allowed);
        CHECK(error_of<g::gate, g::gate_gradient>(s) <= allowed);
        CHECK(error_of<g::cosine, g::cosine_gradient>(s) <= allowed);
    }
    const shape s{.batches = 2, .heads = 6, .key_heads = 2, .queries = 67, .keys = 101};
    CHECK(error_of<g::scaled_and_biased, g::scaled_and_biased_gradient>(s) <= allowed);
    CHECK(error_of<g::bias_batch_heads, g::bias_batch_heads_gradient>(s, {0, 77}) <= allowed);
    CHECK(error_of<g::quantised_cache, g::quantised_cache_gradient>(s) <= 10 * allowed);  // codes up to 128
}
