#include "golden.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>

using namespace attune;
using namespace attune::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

void report(const std::filesystem::path& file, const std::vector<golden_run::comparison>& comparisons, int launches) {
    std::string line;
    char part[128];
    for (const auto& c : comparisons) {
        std::snprintf(part, sizeof part, "  %s %.2e (tolerance %.0e)%s", c.output.c_str(), c.error, c.tolerance,
                      c.passes() ? "" : " FAILS");
        line += part;
    }
    if (launches >= 0) line += "  launches " + std::to_string(launches);
    std::printf("%-32s%s\n", file.stem().string().c_str(), line.c_str());
    std::fflush(stdout);
    for (const auto& c : comparisons) {
        INFO(file.filename().string() << ": " << c.output << ", error " << c.error << ", tolerance " << c.tolerance);
        CHECK(c.passes());
    }
}

/// Runs `check` on every file of the folder; what it throws fails that file and not the others.
template <class F> void for_every_file(const char* what, F check) {
    auto files = files_in(folder(), filter());
    const auto left = std::erase_if(files, is_elsewhere);
    for (const auto& path : files) {
        try {
            check(path, recipe_for(path));
        } catch (const std::exception& e) {
            std::printf("%-32s  FAILS: %s\n", path.stem().string().c_str(), e.what());
            FAIL_CHECK(e.what());
        }
    }
    std::printf("%zu golden files, %s, from %s; %zu whole layers are left to golden_full_tests\n", files.size(), what,
                folder().string().c_str(), left);
    CHECK(!files.empty());
}

struct temporary_folder {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() /
        ("attune_golden_" + std::to_string(std::chrono::steady_clock::now().time_since_epoch().count()));
    temporary_folder() { std::filesystem::create_directories(path); }
    ~temporary_folder() { std::filesystem::remove_all(path); }
    temporary_folder(const temporary_folder&) = delete;
    temporary_folder& operator=(const temporary_folder&) = delete;
};

}  // namespace

TEST_CASE("kernels agree with the golden files", "[kernels]") {
    for_every_file("kernels", [](const auto& path, const recipe& how) {
        golden_run run(path, how);
        const int launches = run.with_kernels();
        report(path, run.compare(), launches);
        INFO(path.filename().string());
        CHECK(launches ==
              std::ranges::count_if(how.steps, [](const step& s) { return std::holds_alternative<graph_step>(s); }));
    });
}

TEST_CASE("the catalogue's formulas, by the reference evaluator, agree with the golden files", "[reference]") {
    for_every_file("reference evaluator", [](const auto& path, const recipe& how) {
        golden_run run(path, how);
        run.with_reference();
        report(path, run.compare(), -1);
    });
}

TEST_CASE("a file's stem ends at its first dot or double underscore", "[harness]") {
    CHECK(stem_of("/a/mask_causal.safetensors") == "mask_causal");
    CHECK(stem_of("mask_causal__2.safetensors") == "mask_causal");
    CHECK(stem_of("mask_causal.long.safetensors") == "mask_causal");
}

TEST_CASE("an unknown stem, an empty folder and a filter without a match are failures that say so", "[harness]") {
    CHECK_THROWS_MATCHES(recipe_for("mask_of_tomorrow.safetensors"), std::runtime_error,
                         MessageMatches(ContainsSubstring("no recipe computes the stem `mask_of_tomorrow`")));
    const temporary_folder empty;
    CHECK_THROWS_MATCHES(files_in(empty.path, ""), std::runtime_error,
                         MessageMatches(ContainsSubstring("no golden file")));
    CHECK_THROWS_MATCHES(files_in(empty.path / "nowhere", ""), std::runtime_error,
                         MessageMatches(ContainsSubstring("no such folder")));
    CHECK_THROWS_MATCHES(files_in(ATTUNE_GOLDEN_FILES, "nothing_*"), std::runtime_error,
                         MessageMatches(ContainsSubstring("`nothing_*`")));
    CHECK(files_in(ATTUNE_GOLDEN_FILES, "mask_caus?l").size() == 1);
}
