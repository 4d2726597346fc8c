// depths.json says which depths of q and k, and of v, the files of a stem may have: kernels for all of them are
// compiled.
#include "golden.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

TEST_CASE("every depth that depths.json names for a stem is compiled", "[harness]") {
    const auto depths = nlohmann::json::parse(std::ifstream(ATTUNE_GOLDEN_DEPTHS));
    int pairs = 0;
    for (const auto& [stem, wanted] : depths.items()) {
        if (stem.starts_with("seed")) continue;  // the layers
        for (const auto& step : attune::testing::recipe_for(stem + ".safetensors").steps) {
            const auto* graph = std::get_if<attune::testing::graph_step>(&step);
            if (graph == nullptr) continue;
            const auto& kernels = graph->kernels().kernels;
            for (const auto& pair : wanted) {
                const int depth = pair[0], value_depth = pair[1];
                INFO(stem << " " << depth << "x" << value_depth);
                CHECK(std::ranges::any_of(kernels, [&](const attune::kernel& k) {
                    return k.depth == depth && k.value_depth == value_depth;
                }));
                ++pairs;
            }
        }
    }
    CHECK(pairs >= 110);
}
