#include "derived.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdio>

using namespace attune;
using namespace attune::testing;

// The kernels must hold for other files of the same stems. These are made here, from the committed ones.
TEST_CASE("every recipe holds for other lengths, batches, heads and values", "[derived]") {
    std::size_t calls = 0;
    double worst = 0;  // in tolerances
    for (const auto& path : files_in(folder(), filter())) {
        if (is_elsewhere(path)) continue;
        const recipe& how = recipe_for(path);
        const auto file = support::read_safetensors(path);
        if (std::ranges::any_of(file.tensors, [](const auto& t) { return t.count() == 0; })) continue;
        unsigned seed = 100;
        const bool layer = stem_of(path).starts_with("seed");  // the double-precision evaluator projects slowly
        const std::vector<derived_sizes> all =
            layer ? std::vector<derived_sizes>{{2, 2, 51, 51}, {1, 1, 13, 67}, {3, 3, 49, 5}, {2, 1, 1, 1}}
                  : std::vector<derived_sizes>{{2, 2, 150, 150}, {1, 1, 37, 301}, {3, 1, 131, 29}, {2, 1, 1, 1}};
        for (const derived_sizes& sizes : all) {
            INFO(stem_of(path) << " with batch " << sizes.batches << ", heads times " << sizes.heads_factor << ", "
                               << sizes.queries << " queries, " << sizes.keys << " keys");
            try {
                golden_run run(derive(file, how, sizes, ++seed), how);
                run.with_kernels();
                for (const auto& c : run.compare()) {
                    INFO(c.output << ", error " << c.error << ", tolerance " << c.tolerance);
                    CHECK(c.passes());
                    worst = std::max(worst, c.error / c.tolerance);
                }
            } catch (const std::exception& e) {
                FAIL_CHECK(e.what());
            }
            ++calls;
        }
    }
    std::printf("%zu calls derived from the golden files, largest error %.2f of its tolerance\n", calls, worst);
}
