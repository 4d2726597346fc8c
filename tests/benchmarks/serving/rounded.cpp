// The errors of rounding in decode: the outputs over codes of eight bits, of queries in codes and of weights in codes,
// each beside the same call without that rounding. Of random tensors, or of those of a model.
//
//     attune_rounded --sequences 64 --heads 12 --keys 256 --depth 32
//     attune_rounded ... --from FOLDER...    each with q, k and v as f32: (sequence, head, 1 or key, depth)
#include "caches.hpp"

#include "tuner/jit_kernel.hpp"

#include <attune/runtime.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace caches = bench::caches;

struct sizes {
    std::int64_t sequences = 64, heads = 12, keys = 256, depth = 32;
    std::int64_t rows() const { return sequences * heads * keys; }
    std::size_t elements() const { return static_cast<std::size_t>(rows() * depth); }
    std::size_t outputs() const { return static_cast<std::size_t>(sequences * heads * depth); }
};

/// Normally distributed, or of a folder.
std::vector<float> numbers_of(const std::filesystem::path& folder, const std::string& name, std::size_t count) {
    std::vector<float> all(count);
    if (folder.empty()) {
        std::minstd_rand random(static_cast<unsigned>(name.front()));
        std::normal_distribution<float> normal;
        for (float& x : all) x = normal(random);
        return all;
    }
    const std::filesystem::path path = folder / name;
    std::ifstream file(path, std::ios::binary);
    const std::size_t bytes = count * sizeof(float);
    if (!file || std::filesystem::file_size(path) != bytes)
        throw std::runtime_error(
            fmt::format("expected {} bytes in {}, got another file or none", bytes, path.string()));
    file.read(reinterpret_cast<char*>(all.data()), static_cast<std::streamsize>(bytes));
    return all;
}

/// Rows as codes from -127 to 127, each times a scale of its own.
struct coded {
    explicit coded(const std::vector<float>& rows, std::int64_t depth) {
        for (auto row = rows.begin(); row != rows.end(); row += depth) {
            float largest = 1e-20f;
            for (std::int64_t d = 0; d < depth; ++d) largest = std::max(largest, std::abs(row[d]));
            scales.push_back(largest / 127);
            for (std::int64_t d = 0; d < depth; ++d)
                codes.push_back(static_cast<std::int8_t>(std::lround(row[d] / scales.back())));
        }
    }
    std::vector<std::int8_t> codes;
    std::vector<float> scales;
};

/// The output of one query a sequence.
class decoded {
public:
    decoded(std::string name, const attune::graph_ir& graph, const std::string& level, std::int64_t depth)
        : of_{"bench::" + name, graph},
          list_(attune::generators::kernels_of(
              {&of_, 1},
              {.targets = {level}, .dtypes = {"f32"}, .depths = {std::to_string(depth)}, .shapes = {"decode"}})),
          made_(list_[0]) {}
    decoded(const decoded&) = delete;
    std::vector<float> operator()(std::vector<attune::detail::named_argument> given, attune::tensor out) const {
        given.push_back({.name = "out", .view = out});
        attune::detail::call(made_.table(), given, {});
        const auto* const first = static_cast<const float*>(out.data());
        std::int64_t count = 1;
        for (int axis = 0; axis < 4; ++axis) count *= out.extent(axis);
        return {first, first + count};
    }

private:
    const attune::generators::variant of_;
    const std::vector<attune::generators::listed_kernel> list_;
    const attune::generators::jit_kernel made_;
};

void print(const std::string& what, const std::vector<float>& exact, const std::vector<float>& rounded) {
    double largest = 0, furthest = 0, squares = 0, of_differences = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
        const double x = exact[i], difference = x - rounded[i];
        largest = std::max(largest, std::abs(x)), furthest = std::max(furthest, std::abs(difference));
        squares += x * x, of_differences += difference * difference;
    }
    fmt::print("{:<44} {:>10.1e} {:>10.1e}\n", what, furthest / largest, std::sqrt(of_differences / squares));
}

void compare(const std::string& title, const std::filesystem::path& folder, const sizes& s,
             const std::deque<decoded>& kernels) {
    std::vector<float> q = numbers_of(folder, "q", s.outputs()), k = numbers_of(folder, "k", s.elements()),
                       v = numbers_of(folder, "v", s.elements()), out(s.outputs());
    coded keys(k, s.depth), values(v, s.depth);
    const std::vector<std::int64_t> one{s.sequences, s.heads, 1, s.depth}, rows{s.sequences, s.heads, s.keys, s.depth},
        each{s.sequences, s.heads, s.keys};
    const attune::tensor to(out.data(), one);
    const attune::detail::named_argument query{.name = "q", .view = attune::tensor(q.data(), one)};
    const std::vector<float> of_f32 = kernels[0]({query,
                                                  {.name = "k", .view = attune::tensor(k.data(), rows)},
                                                  {.name = "v", .view = attune::tensor(v.data(), rows)}},
                                                 to);
    const std::vector<attune::detail::named_argument> cache{
        query,
        {.name = "k8", .view = attune::tensor(keys.codes.data(), rows)},
        {.name = "v8", .view = attune::tensor(values.codes.data(), rows)},
        {.name = "k_scale", .view = attune::tensor(keys.scales.data(), each)},
        {.name = "v_scale", .view = attune::tensor(values.scales.data(), each)}};
    const std::vector<float> of_i8 = kernels[1](cache, to);
    fmt::print("{:<44} {:>10} {:>10}\n", title, "largest", "rms");
    print("keys and values in i8, beside f32", of_f32, of_i8);
    print("and quantized<i8>(q), beside that", of_i8, kernels[2](cache, to));
    print("and quantized<i16> of the weights, beside i8", of_i8, kernels[3](cache, to));
    print("and quantized<u8> of the weights, beside i8", of_i8, kernels[4](cache, to));
}

}  // namespace

int main(int argc, char** argv) {
    sizes s;
    std::vector<std::filesystem::path> folders;
    CLI::App app{
        "Errors of rounding in decode: the largest, of the largest output, and the root of the mean square, of that of "
        "the outputs."};
    app.add_option("--from", folders, "folders with q, k and v as f32; none: normally distributed numbers");
    app.add_option("--sequences", s.sequences)->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--heads", s.heads)->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--keys", s.keys)->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--depth", s.depth)->capture_default_str()->check(CLI::PositiveNumber);
    CLI11_PARSE(app, argc, argv);
    std::string level;
    for (const attune::generators::level& each : attune::generators::levels())
        if (level.empty() && attune::runs(each.name)) level = each.name;
    try {
        using attune::dsl::ir_of;
        std::deque<decoded> kernels;
        kernels.emplace_back("f32", ir_of<caches::contiguous>, level, s.depth);
        kernels.emplace_back("i8", ir_of<caches::of_i8>, level, s.depth);
        kernels.emplace_back("queries", ir_of<caches::of_i8_and_codes>, level, s.depth);
        kernels.emplace_back("two_digits", ir_of<caches::of_i8_and_two_digits>, level, s.depth);
        kernels.emplace_back("one_digit", ir_of<caches::of_i8_and_one_digit>, level, s.depth);
        fmt::print("{}\n", level);
        if (folders.empty()) compare("random", {}, s, kernels);
        for (const auto& folder : folders) compare(folder.filename().string(), folder, s, kernels);
    } catch (const std::exception& problem) {
        fmt::print(stderr, "{}\n", problem.what());
        return 1;
    }
}
