#include "../golden/golden.hpp"
#include "gradient_errors.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace attune::testing;

TEST_CASE("kernels of gradients agree with the golden files", "[kernels]") {
    std::vector<recipe> recipes;
    for (auto* cases : {ATTUNE_KERNEL_CASES})
        for (const recipe& each : cases()) recipes.push_back(each);
    const char* given = std::getenv("ATTUNE_GOLDEN_GRAD");
    int files = 0;
    for (const auto& path : files_in(given != nullptr ? given : ATTUNE_GOLDEN_FILES, filter())) {
        const auto found = std::ranges::find(recipes, stem_of(path), &recipe::stem);
        if (found == recipes.end()) continue;
        golden_run run(path, *found);
        CHECK(run.with_kernels({.target = target}) == 1);
        std::printf("%-28s", path.stem().string().c_str());
        for (const auto& c : run.compare()) {
            std::printf("  %s %.1e (%.0e)", c.output.c_str(), c.error, c.tolerance);
            INFO(path.filename().string()
                 << ": " << c.output << ", error " << c.error << ", tolerance " << c.tolerance);
            CHECK(c.passes());
        }
        std::printf("\n");
        ++files;
    }
    std::printf("%d golden files by kernels of gradients\n", files);
    CHECK(files > 0);
}
