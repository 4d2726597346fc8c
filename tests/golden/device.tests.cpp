#include "golden.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

using namespace attune;
using namespace attune::testing;

namespace {

std::vector<const kernel_table*> tables_of(const recipe& how) {
    std::vector<const kernel_table*> tables;
    for (const step& s : how.steps)
        if (const auto* graph = std::get_if<graph_step>(&s)) tables.push_back(&graph->kernels());
    return tables;
}

bool is_here(const std::string& stem) {
    return std::ranges::any_of(all_recipes(), [&](const recipe& r) { return r.stem == stem; });
}

void skip_without_device() {
    for (const kernel_list::entry& each : detail::kernels(*tables_of(all_recipes().front()).front()).entries)
        if (!each.missing.empty()) SKIP("no device for " << ATTUNE_GOLDEN_TARGET << " here: lacks " << each.missing);
}

}  // namespace

// The first device of ATTUNE_GOLDEN_TARGET, opencl (PoCL's CPU where there is no other) or cuda. The program holds
// kernels for it alone, so that what is computed was computed there.
TEST_CASE("a device agrees with the golden files") {
    constexpr std::string_view target = ATTUNE_GOLDEN_TARGET;
    skip_without_device();
    std::size_t files = 0, others = 0;
    for (const auto& path : files_in(folder(), filter())) {
        if (!is_here(stem_of(path))) {
            ++others;
            continue;
        }
        INFO(path.filename().string());
        const recipe& how = recipe_for(path);
        const auto tables = tables_of(how);
        for (const kernel_table* table : tables)
            CHECK(std::ranges::all_of(table->kernels,
                                      [](const kernel& k) { return std::string_view(k.target) == target; }));
        const auto start = std::chrono::steady_clock::now();  // the device's compiler has most of it
        try {
            golden_run run(path, how);
            CHECK(run.with_kernels({.target = target}) == static_cast<int>(tables.size()));
            for (const auto& c : run.compare()) {
                INFO(c.output << ", error " << c.error << ", tolerance " << c.tolerance);
                CHECK(c.passes());
                std::printf("%-32s  %s %.2e (tolerance %.0e)%s\n", path.stem().string().c_str(), c.output.c_str(),
                            c.error, c.tolerance, c.passes() ? "" : " FAILS");
            }
        } catch (const std::exception& e) {
            std::printf("%-32s  FAILS: %s\n", path.stem().string().c_str(), e.what());
            FAIL_CHECK(e.what());
        }
        std::printf("%-32s  %.1f s\n", path.stem().string().c_str(),
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        std::fflush(stdout);
        ++files;
    }
    std::printf("%zu golden files on a device for %s, %zu others\n", files, ATTUNE_GOLDEN_TARGET, others);
    CHECK(files > 0);
#ifdef ATTUNE_GOLDEN_ALL
    CHECK(others == 0);
#endif
}

// As devices.md says, a row's maximum may lose a NaN.
TEST_CASE("on a device a NaN in queries, keys and values comes out of the rows that see it, and of no other") {
    skip_without_device();
    std::size_t rows = 0;
    for (const auto& path : files_in(folder(), filter())) {
        if (!is_here(stem_of(path))) continue;
        for (const nan_comparison& c : compare_with_nan(path, recipe_for(path), {.target = ATTUNE_GOLDEN_TARGET})) {
            if (c.output == "row_max") continue;
            CAPTURE(path.stem().string(), c.input, c.output, c.nan);
            CHECK(c.wrong == 0);
            rows += c.nan;
        }
    }
    CHECK(rows > 0);
}
