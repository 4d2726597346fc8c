#include "gradient_errors.hpp"
#include "layers.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace attune;
using namespace attune::testing;
using support::shape;
namespace l = gradients_of_layers;

TEST_CASE("gradients of norms agree with the reference", "[kernels]") {
    const auto narrow = [](std::int64_t length, std::int64_t heads) {
        return shape{.batches = length > 20 ? 1 : 2,
                     .heads = heads,
                     .key_heads = heads,
                     .queries = length,
                     .keys = length,
                     .depth = 8,
                     .value_depth = 8};
    };
    CHECK(error_of<l::normed, l::normed_gradient>(narrow(1, 2)) <= allowed);
    CHECK(error_of<l::normed, l::normed_gradient>(narrow(49, 1)) <= allowed);
    CHECK(error_of<l::normed, l::normed_gradient>(narrow(6, 3), {4, 0}) <= allowed);
    for (const std::int64_t keys : {1, 50}) {
        shape s = narrow(5, 4);
        s.key_heads = 2, s.keys = keys;
        INFO(s.text());
        CHECK(error_of<l::normed_tensors, l::normed_tensors_gradient>(s) <= allowed);
        CHECK(error_of<l::centred, l::centred_gradient>(s) <= allowed);
        CHECK(error_of<l::centred, l::centred_gradient>(
                  s, {static_cast<std::int32_t>(keys), static_cast<std::int32_t>(keys) / 2}) <= allowed);
    }
}
