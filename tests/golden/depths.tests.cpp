// depths.json says which depths of q and k, and of v, the files of a stem may have: kernels for all of them are compiled.
#include "golden.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <stdexcept>

TEST_CASE("every depth that depths.json names for a stem is compiled", "[harness]") {
    const auto depths = nlohmann::json::parse(std::ifstream(ATTUNE_GOLDEN_DEPTHS));
    int pairs = 0;
    for (const auto& [stem, wanted] : depths.items()) {
        const attune::kernel_table* table = nullptr;
        try {
            table = &attune::testing::variant_for(stem + ".safetensors").kernels();
        } catch (const std::runtime_error&) {
            continue;  // not said in the language yet: a file of that stem is a failure of its own
        }
        for (const auto& pair : wanted) {
            const int depth = pair[0], value_depth = pair[1];
            INFO(stem << " " << depth << "x" << value_depth);
            CHECK(std::any_of(table->kernels.begin(), table->kernels.end(), [&](const attune::kernel& k) { return k.depth == depth && k.value_depth == value_depth; }));
            ++pairs;
        }
    }
    CHECK(pairs >= 90);
}
