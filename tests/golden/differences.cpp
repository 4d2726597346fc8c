// golden_differences FILE: every golden file by the kernels that are linked. A line of JSON for each output on standard
// output, and what was computed, f32 after f32 in the order of the lines, in FILE. levels.py compares the levels.
#include "golden.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>

using namespace attune::testing;

namespace {

void add(const std::filesystem::path& path, std::ofstream& to) {
    golden_run run(path, recipe_for(path));
    run.with_kernels();
    for (const golden_run::comparison& c : run.compare()) {
        const attune::support::file_tensor& made = run.made()[c.output];
        if (made.element == attune::element_type::f32)
            to.write(reinterpret_cast<const char*>(made.bytes.data()), static_cast<std::streamsize>(made.bytes.size()));
        const std::int64_t count = made.element == attune::element_type::f32 ? made.count() : 0;
        const nlohmann::ordered_json line{{"file", path.stem().string()},
                                          {"output", c.output},
                                          {"error", c.error},
                                          {"tolerance", c.tolerance},
                                          {"count", count}};
        std::printf("%s\n", line.dump().c_str());
    }
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 2) return std::fprintf(stderr, "expected a file to write, got %d arguments\n", argc - 1), 2;
    std::ofstream to(argv[1], std::ios::binary);
    for (const std::filesystem::path& path : files_in(folder(), filter()))
        if (std::ranges::find(all_recipes(), stem_of(path), &recipe::stem) != all_recipes().end()) add(path, to);
    to.close();
    return to ? 0 : (std::fprintf(stderr, "could not write %s\n", argv[1]), 2);
} catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 2;
}
