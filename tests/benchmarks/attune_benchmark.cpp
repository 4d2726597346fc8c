// Serves timings of the benchmark variants over stdin and stdout, so that another program can time its own by turns:
//
//     attune_benchmark <folder>
//
// `load <batch> <heads> <length> <depth>`   reads q.bin, k.bin, v.bin and slopes.bin (f32, dense) from the folder
// `run <variant>`                           one call; writes its output to out.bin and says which kernel made it
// `time <variant> <repeats>`                one call that is not counted, then the seconds of each of `repeats` calls
// `peak`                                    the multiply-add rate of as many threads as a call uses
//
// Each line is answered by one line of JSON; {"error": "..."} where it cannot be done. Ends with its input.
#include "peak.hpp"
#include "variants.hpp"

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

/// The tensors of one problem: (batch, heads, length, depth), as many keys as queries.
struct problem {
    std::int64_t batch{}, heads{}, length{}, depth{};
    std::vector<float> q, k, v, slopes, out;

    attune::tensor view(std::vector<float>& data) const { return {data.data(), {batch, heads, length, depth}}; }

    /// Calls f with the variant's call, its arguments bound.
    template <class F>
    auto with(const std::string& variant, F f) {
        namespace dsl = attune::dsl;
        if (q.empty()) throw std::invalid_argument("expected load before run and time");
        const attune::tensor Q = view(q), K = view(k), V = view(v), O = view(out), S(slopes.data(), {heads});
        if (variant == "full") return f(attune::prepare<bench::full_attention>(dsl::q = Q, dsl::k = K, dsl::v = V, dsl::out = O));
        if (variant == "causal") return f(attune::prepare<bench::causal_attention>(dsl::q = Q, dsl::k = K, dsl::v = V, dsl::out = O));
        if (variant == "window") return f(attune::prepare<bench::window_attention>(dsl::q = Q, dsl::k = K, dsl::v = V, dsl::out = O));
        if (variant == "alibi")
            return f(attune::prepare<bench::alibi_attention>(dsl::q = Q, dsl::k = K, dsl::v = V, bench::slopes = S, dsl::out = O));
        if (variant == "softcap") return f(attune::prepare<bench::softcap_attention>(dsl::q = Q, dsl::k = K, dsl::v = V, dsl::out = O));
        throw std::invalid_argument("expected full, causal, window, alibi or softcap, got " + variant);
    }
};

/// A problem whose inputs lie in the folder.
problem load(const std::filesystem::path& folder, std::istream& arguments) {
    problem p;
    if (!(arguments >> p.batch >> p.heads >> p.length >> p.depth)) throw std::invalid_argument("expected load <batch> <heads> <length> <depth>");
    const std::int64_t count = p.batch * p.heads * p.length * p.depth;
    p.q = read_floats(folder / "q.bin", count);
    p.k = read_floats(folder / "k.bin", count);
    p.v = read_floats(folder / "v.bin", count);
    p.slopes = read_floats(folder / "slopes.bin", p.heads);
    p.out.assign(static_cast<std::size_t>(count), 0.0f);
    return p;
}

json run(problem& given, const std::filesystem::path& folder, const std::string& variant) {
    return given.with(variant, [&](const auto& call) -> json {
        call();
        std::ofstream(folder / "out.bin", std::ios::binary)
            .write(reinterpret_cast<const char*>(given.out.data()), static_cast<std::streamsize>(given.out.size() * sizeof(float)));
        const attune::explanation what = call.explain();
        return {{"threads", what.threads}, {"kernel", what.kernel}, {"target", what.target}, {"schedule", what.schedule},
                {"visited", static_cast<double>(what.blocks_visited) / static_cast<double>(what.blocks)}};
    });
}

json time(problem& given, const std::string& variant, int repeats) {
    return given.with(variant, [&](const auto& call) -> json {
        std::vector<double> seconds;
        for (int i = 0; i <= repeats; ++i) {
            const auto start = std::chrono::steady_clock::now();
            call();
            if (i > 0) seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        }
        return {{"seconds", seconds}};
    });
}

json peak() {
    // The level that kernels are chosen by, not the widest that the CPU has.
    const attune::kernel_list kernels = attune::kernels<bench::full_attention>();
    std::string target;
    for (const auto& kernel : kernels.entries)
        if (kernel.chosen) target = kernel.target;
    const int threads = attune::threads();
    return {{"threads", threads}, {"target", target}, {"gigaflops", attune::support::fma_peak_gigaflops(threads, target)}};
}

json answer(problem& given, const std::filesystem::path& folder, const std::string& line) {
    std::istringstream words(line);
    std::string command, variant;
    words >> command;
    if (command == "load") return given = load(folder, words), json{{"loaded", true}};
    if (command == "peak") return peak();
    words >> variant;
    if (command == "run") return run(given, folder, variant);
    int repeats = 0;
    if (command == "time" && words >> repeats) return time(given, variant, repeats);
    throw std::invalid_argument("expected load, run, time or peak, got " + line);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2 || std::string_view(argv[1]).starts_with("-")) {
        std::cerr << "usage: attune_benchmark <folder>    (driven by tests/benchmarks/compare.py)\n";
        return argc == 2 && std::string_view(argv[1]) == "--help" ? 0 : 2;
    }
    problem given;
    for (std::string line; std::getline(std::cin, line);) {
        json reply;
        try {
            reply = answer(given, argv[1], line);
        } catch (const std::exception& error) {
            reply = {{"error", error.what()}};
        }
        std::cout << reply.dump() << std::endl;
    }
}
