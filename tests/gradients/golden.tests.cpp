#include "../golden/golden.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdio>
#include <cstdlib>

using namespace attune::testing;

namespace {

/// ATTUNE_GOLDEN_GRAD, else the committed files.
std::filesystem::path golden_folder() {
    const char* given = std::getenv("ATTUNE_GOLDEN_GRAD");
    return given != nullptr ? std::filesystem::path(given) : std::filesystem::path(ATTUNE_GOLDEN_FILES);
}

}  // namespace

TEST_CASE("gradients, by the reference evaluator, agree with the golden files", "[reference]") {
    const auto files = files_in(golden_folder(), filter());
    for (const auto& path : files) {
        try {
            golden_run run(path, recipe_for(path));
            run.with_reference();
            std::printf("%-28s", path.stem().string().c_str());
            for (const auto& c : run.compare()) {
                std::printf("  %s %.1e (%.0e)", c.output.c_str(), c.error, c.tolerance);
                INFO(path.filename().string()
                     << ": " << c.output << ", error " << c.error << ", tolerance " << c.tolerance);
                CHECK(c.passes());
            }
            std::printf("\n");
        } catch (const std::exception& e) {
            FAIL_CHECK(path.filename().string() << ": " << e.what());
        }
    }
    std::printf("%zu golden files of gradients\n", files.size());
}
