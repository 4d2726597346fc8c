// Serves timings of a whole attention layer over stdin and stdout, so that another program can
// interleave them with its own:
//
//     attune_layer_benchmark <folder>
//
// `load <batch> <length> <width> <heads>`  reads x.bin, in_weight.bin, in_bias.bin, out_weight.bin and out_bias.bin
//                                          (f32, dense) from the folder
// `run <variant>`                          one call; writes out.bin, and weights.bin where there are any, and says
//                                          which kernel made them
// `time <variant> <repeats>`               one call that is not counted, then the seconds of each of `repeats` calls
//
// Variants: layer, mean, weights. Each line is answered by one line of JSON; {"error": "..."} where it cannot be done.
// Ends with its input.
#include "answered_lines.hpp"
#include "layer_variants.hpp"

#include <attune/runtime.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using nlohmann::json;

std::vector<float> read_floats(const std::filesystem::path& file, std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    const auto bytes = static_cast<std::streamsize>(values.size() * sizeof(float));
    std::ifstream in(file, std::ios::binary);
    if (!in.read(reinterpret_cast<char*>(values.data()), bytes))
        throw std::runtime_error(file.string() + ": expected " + std::to_string(bytes) + " bytes");
    return values;
}

void write_floats(const std::filesystem::path& file, const std::vector<float>& values) {
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
}

/// One layer's tensors.
struct problem {
    std::int64_t batch{}, length{}, width{};
    int heads{};
    std::vector<float> x, in_weight, in_bias, out_weight, out_bias, out, weights;

    /// Calls f with the variant's call, its arguments bound.
    template <class F> auto with(const std::string& variant, F f) {
        namespace dsl = attune::dsl;
        if (x.empty()) throw std::invalid_argument("expected load before run and time");
        const attune::tensor X(x.data(), {batch, length, width}), O(out.data(), {batch, length, width}),
            M(in_weight.data(), {3 * width, width}), N(in_bias.data(), {3 * width}),
            P(out_weight.data(), {width, width}), R(out_bias.data(), {width});
        const auto call = [&]<const auto & Graph>(auto... more) {
            return f(attune::prepare<Graph>(bench::x = X, bench::in_weight = M, bench::in_bias = N,
                                            bench::out_weight = P, bench::out_bias = R, bench::number_of_heads = heads,
                                            dsl::out = O, more...));
        };
        if (variant == "layer") {
            weights.clear();
            return call.template operator()<bench::layer>();
        }
        if (variant == "mean") {
            weights.resize(static_cast<std::size_t>(batch * length * length));
            return call.template operator()<bench::layer_with_mean>(
                dsl::output<"weights"> = attune::tensor(weights.data(), {batch, length, length}));
        }
        if (variant == "weights") {
            weights.resize(static_cast<std::size_t>(batch * heads * length * length));
            return call.template operator()<bench::layer_with_weights>(
                dsl::output<"weights"> = attune::tensor(weights.data(), {batch, heads, length, length}));
        }
        throw std::invalid_argument("expected layer, mean or weights, got " + variant);
    }
};

problem load(const std::filesystem::path& folder, std::istream& arguments) {
    problem p;
    if (!(arguments >> p.batch >> p.length >> p.width >> p.heads))
        throw std::invalid_argument("expected load <batch> <length> <width> <heads>");
    p.x = read_floats(folder / "x.bin", p.batch * p.length * p.width);
    p.in_weight = read_floats(folder / "in_weight.bin", 3 * p.width * p.width);
    p.in_bias = read_floats(folder / "in_bias.bin", 3 * p.width);
    p.out_weight = read_floats(folder / "out_weight.bin", p.width * p.width);
    p.out_bias = read_floats(folder / "out_bias.bin", p.width);
    p.out.assign(p.x.size(), 0.0f);
    return p;
}

json run(problem& given, const std::filesystem::path& folder, const std::string& variant) {
    return given.with(variant, [&](const auto& call) -> json {
        call();
        write_floats(folder / "out.bin", given.out);
        write_floats(folder / "weights.bin", given.weights);
        const attune::explanation what = call.explain();
        return {
            {"threads", what.threads}, {"kernel", what.kernel}, {"target", what.target}, {"schedule", what.schedule}};
    });
}

json time(problem& given, const std::string& variant, int repeats) {
    return given.with(variant, [&](const auto& call) -> json {
        std::vector<double> seconds;
        for (int i = 0; i <= repeats; ++i) {
            const auto start = std::chrono::steady_clock::now();
            call();
            if (i > 0)
                seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        }
        return {{"seconds", seconds}};
    });
}

json answer(problem& given, const std::filesystem::path& folder, const std::string& line) {
    std::istringstream words(line);
    std::string command, variant;
    words >> command;
    if (command == "load") return given = load(folder, words), json{{"loaded", true}};
    words >> variant;
    if (command == "run") return run(given, folder, variant);
    int repeats = 0;
    if (command == "time" && words >> repeats) return time(given, variant, repeats);
    throw std::invalid_argument("expected load, run or time, got " + line);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2 || std::string_view(argv[1]).starts_with("-")) {
        std::cerr << "usage: attune_layer_benchmark <folder>    (driven by tests/benchmarks/layer.py)\n";
        return argc == 2 && std::string_view(argv[1]) == "--help" ? 0 : 2;
    }
    problem given;
    bench::answer_lines([&](const std::string& line) { return answer(given, argv[1], line); });
}
