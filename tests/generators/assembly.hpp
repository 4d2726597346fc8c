#pragma once
#include "codegen/halide_target.hpp"
#include "kernel/kernel_list.hpp"
#include "lower.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

/// The assembly of a graph's kernel for f32, at depth 64: for "decode" or "prefill".
inline std::string assembly_of(const attune::graph_ir& graph, const std::string& level, const std::string& shapes) {
    namespace generators = attune::generators;
    const generators::variant of{"my::cache", graph};
    const generators::listed_kernel kernel =
        generators::kernels_of({&of, 1}, {.targets = {level}, .dtypes = {"f32"}, .depths = {"64"}, .shapes = {shapes}})
            .front();
    const std::string file =
        std::filesystem::temp_directory_path() / ("attune_assembly_" + std::to_string(::getpid()) + ".s");
    generators::lower(kernel.request)
        .module("kernel", generators::halide_target(*kernel.request.target))
        .compile({{Halide::OutputFileType::assembly, file}});
    std::ifstream in(file);
    std::stringstream text;
    text << in.rdbuf();
    std::filesystem::remove(file);
    return text.str();
}

inline std::string assembly_of_decode(const attune::graph_ir& graph, const std::string& level) {
    return assembly_of(graph, level, "decode");
}

/// How often a text says a word.
inline int count_of(std::string_view word, const std::string& text) {
    int count = 0;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
    return count;
}
