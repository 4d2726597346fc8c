#include "derived.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdio>

using namespace attune;
using namespace attune::testing;

// The kernels must hold for other files of the same stems. These are made here, from the committed ones.
TEST_CASE("every variant holds for other lengths, batches, heads and values", "[derived]") {
    std::size_t calls = 0;
    double worst = 0;  // in tolerances
    for (const auto& path : files_in(folder(), filter())) {
        const variant_of_stem& variant = variant_for(path);
        const auto file = support::read_safetensors(path);
        if (file["k"].shape.at(2) == 0) continue;
        unsigned seed = 100;
        for (const derived_sizes& sizes : {derived_sizes{2, 2, 150, 150}, derived_sizes{1, 1, 37, 301}, derived_sizes{3, 1, 131, 29}, derived_sizes{2, 1, 1, 1}}) {
            bound_file bound(derive(file, variant.graph, sizes, ++seed), variant);
            attune::detail::call(variant.kernels(), bound.arguments(), {});
            for (const auto& c : bound.compare()) {
                INFO(stem_of(path) << " with batch " << sizes.batches << ", heads times " << sizes.heads_factor << ", " << sizes.queries << " queries, " << sizes.keys << " keys: " << c.output
                                   << ", error " << c.error << ", tolerance " << c.tolerance);
                CHECK(c.passes());
                worst = std::max(worst, c.error / c.tolerance);
            }
            ++calls;
        }
    }
    std::printf("%zu calls derived from the golden files, largest error %.2f of its tolerance\n", calls, worst);
}
