// Serves timings of recurrences over stdin and stdout, so that recurrences.py can interleave them with its own:
//
//     recurrent_benchmark <folder>
//
// `load <rule> <batch> <heads> <tokens> <depth> <value depth>`
//                    reads each input, NAME.bin, dense, from the folder, and says their names
// `run`              one call; writes out.bin and state_out.bin, and says which kernel made them
// `time <repeats>`   one call that is not counted, then the seconds of each of `repeats` calls, whose state goes on in
//                    place, and the peak of what multiplies in their kernel
// `scale <repeats>`  the same of a loop that multiplies all states in place by a number
// `cpu`              from now on seconds are those of the process on its CPUs: of one thread, on a machine that others
// use
//
// Rules: gated_delta, gated_delta_bf16, kda, mamba2, gla. Each line is answered by one line of JSON; {"error": "..."}
// where it cannot be done. Ends with its input.
#include "answered_lines.hpp"
#include "peak.hpp"
#include "recurrent_variants.hpp"

#include <attune/runtime.hpp>
#include <attune/runtime/detail/call.hpp>
#include <nlohmann/json.hpp>

#include <barrier>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using attune::axis_kind;
using nlohmann::json;

const std::map<std::string, const attune::kernel_table*, std::less<>>& rules() {
    static const std::map<std::string, const attune::kernel_table*, std::less<>> all{
        {"gated_delta", &attune::detail::table_of<bench::gated_delta>()},
        {"gated_delta_bf16", &attune::detail::table_of<bench::gated_delta_bf16>()},
        {"kda", &attune::detail::table_of<bench::kda>()},
        {"mamba2", &attune::detail::table_of<bench::mamba2>()},
        {"gla", &attune::detail::table_of<bench::gla>()}};
    return all;
}

/// A tensor and its bytes, which begin where a line of the cache does.
class dense {
public:
    dense(attune::element_type type, std::vector<std::int64_t> extents) : type_(type), extents_(std::move(extents)) {
        bytes_ = static_cast<std::size_t>(attune::bytes_of(type));
        for (const std::int64_t extent : extents_) bytes_ *= static_cast<std::size_t>(extent);
        data_.reset(static_cast<char*>(::operator new(bytes_, lines)));
    }
    attune::tensor view() const { return {type_, static_cast<void*>(data_.get()), extents_}; }
    float* floats() const { return reinterpret_cast<float*>(data_.get()); }
    std::size_t bytes() const { return bytes_; }
    void read(const std::filesystem::path& file) const {
        std::ifstream in(file, std::ios::binary);
        if (!in.read(data_.get(), static_cast<std::streamsize>(bytes_)))
            throw std::runtime_error(file.string() + ": expected " + std::to_string(bytes_) + " bytes");
    }
    void write(const std::filesystem::path& file) const {
        std::ofstream(file, std::ios::binary).write(data_.get(), static_cast<std::streamsize>(bytes_));
    }

private:
    static constexpr std::align_val_t lines{64};
    struct free_lines {
        void operator()(char* memory) const { ::operator delete(memory, lines); }
    };
    attune::element_type type_;
    std::vector<std::int64_t> extents_;
    std::size_t bytes_{};
    std::unique_ptr<char, free_lines> data_;
};

/// The seconds of the clock, or of this process on its CPUs.
bool counts_cpu = false;
double now() {
    timespec t{};
    clock_gettime(counts_cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// One rule's tensors.
struct problem {
    const attune::kernel_table* kernels{};
    std::map<std::string, dense, std::less<>> tensors;

    const dense& at(std::string_view name) const { return tensors.find(name)->second; }
    std::vector<attune::detail::named_argument> arguments(std::string_view state_out) const {
        std::vector<attune::detail::named_argument> all;
        for (const auto& input : kernels->graph.inputs)
            all.push_back({.name = input.name, .view = at(input.name).view()});
        all.push_back({.name = "out", .view = at("out").view()});
        all.push_back({.name = "state_out", .view = at(state_out).view()});
        return all;
    }
};

problem load(const std::filesystem::path& folder, std::istream& words) {
    std::string rule;
    std::int64_t batch = 0, heads = 0, tokens = 0, depth = 0, value_depth = 0;
    if (!(words >> rule >> batch >> heads >> tokens >> depth >> value_depth))
        throw std::invalid_argument("expected load <rule> <batch> <heads> <tokens> <depth> <value depth>");
    const auto found = rules().find(rule);
    if (found == rules().end()) throw std::invalid_argument("expected a rule, got " + rule);
    problem made;
    made.kernels = found->second;
    for (const attune::input_declaration& input : made.kernels->graph.inputs) {
        std::vector<std::int64_t> extents;
        for (int axis = 0; axis < input.rank; ++axis) {
            const axis_kind is = input.axes[static_cast<std::size_t>(axis)].kind;
            extents.push_back(is == axis_kind::batch   ? batch
                              : is == axis_kind::head  ? heads
                              : is == axis_kind::query ? tokens
                              : is == axis_kind::depth ? depth
                                                       : value_depth);
        }
        made.tensors.try_emplace(std::string(input.name), input.element, extents)
            .first->second.read(folder / (std::string(input.name) + ".bin"));
        if (input.name == "v_rows") made.tensors.try_emplace("out", input.element, extents);
        if (input.name == "state_in") made.tensors.try_emplace("state_out", input.element, extents);
    }
    return made;
}

json run(const problem& given, const std::filesystem::path& folder) {
    const auto call = attune::detail::prepare(*given.kernels, given.arguments("state_out"), {});
    attune::detail::call(*call);
    for (const char* name : {"out", "state_out"}) given.at(name).write(folder / (std::string(name) + ".bin"));
    const attune::explanation what = attune::detail::explain(*call);
    return {{"threads", what.threads}, {"kernel", what.kernel}, {"target", what.target}, {"schedule", what.schedule}};
}

json time(const problem& given, int repeats) {
    static attune::support::peaks peaks;
    const auto call = attune::detail::prepare(*given.kernels, given.arguments("state_in"), {});
    const attune::explanation what = attune::detail::explain(*call);
    const attune::support::instruction& multiplies = attune::support::instruction_of(what.target, what.schedule);
    double peak = 0;
    const std::vector<double> seconds = attune::support::seconds_beside(
        [&] { peak = peaks.again(multiplies, what.threads); }, [&] { attune::detail::call(*call); }, repeats + 1, now);
    return {{"seconds", std::vector(seconds.begin() + 1, seconds.end())}, {"gigaflops", peak}};
}

/// Threads wait for each other before a pass and after it: none is started while time is taken.
json scale(const problem& given, int repeats) {
    const dense& state = given.at("state_in");
    const std::size_t count = state.bytes() / sizeof(float), threads = static_cast<std::size_t>(attune::threads());
    std::barrier together(static_cast<std::ptrdiff_t>(threads));
    std::vector<double> seconds;
    const auto passes = [&](std::size_t of) {
        for (int i = 0; i <= repeats; ++i) {
            together.arrive_and_wait();
            const double start = now();
            for (std::size_t j = count * of / threads; j < count * (of + 1) / threads; ++j) state.floats()[j] *= 0.999f;
            together.arrive_and_wait();
            if (of == 0 && i > 0) seconds.push_back(now() - start);
        }
    };
    std::vector<std::jthread> others;
    for (std::size_t of = 1; of < threads; ++of) others.emplace_back(passes, of);
    passes(0);
    return {{"seconds", seconds}};
}

json answer(problem& given, const std::filesystem::path& folder, const std::string& line) {
    std::istringstream words(line);
    std::string command;
    int repeats = 0;
    words >> command;
    if (command == "cpu") return counts_cpu = true, json{{"counts", "cpu"}};
    if (command == "load") return given = load(folder, words), json{{"loaded", true}};
    if (given.kernels == nullptr) throw std::invalid_argument("expected load before " + command);
    if (command == "run") return run(given, folder);
    if (words >> repeats && command == "time") return time(given, repeats);
    if (words && command == "scale") return scale(given, repeats);
    throw std::invalid_argument("expected load, run, time, scale or cpu, got " + line);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2 || std::string_view(argv[1]).starts_with("-")) {
        std::cerr << "usage: recurrent_benchmark <folder>    (driven by tests/benchmarks/recurrences.py)\n";
        return argc == 2 && std::string_view(argv[1]) == "--help" ? 0 : 2;
    }
    problem given;
    bench::answer_lines([&](const std::string& line) { return answer(given, argv[1], line); });
}
