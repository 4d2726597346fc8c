// Times the benchmark table: by itself, or interleaved with other programs.
//
//     attune_benchmark [options of Google Benchmark]   the table (cases.cpp), and the machine's own limits
//     attune_benchmark --serve <folder>                answers requests on stdin, each by a line of JSON;
//                                                      {"error": "..."} where it cannot be done
//
// `cases`                       the table
// `machine`                     the multiply-add rate and the read bandwidth of as many threads as a call uses
// `load <case>`                 reads q.bin, k.bin, v.bin, and what its variant reads beside them, dense, from
//                               the folder
// `run <variant>`               one call of the loaded tensors; writes its output to out.bin and says which kernel
//                               made it
// `time <variant> <repeats>`    one call that is not counted, then the seconds of each of `repeats` calls, and the
//                               peak of what multiplies in their kernel: the best of what was measured beside them
//                               and beside earlier calls
// `read <repeats>`              the same of reading the loaded keys and values once, by as many threads
#include "answered_lines.hpp"
#include "cases.hpp"
#include "peak.hpp"
#include "selecting_variants.hpp"
#include "variants.hpp"

#include <benchmark/benchmark.h>
#include <attune/runtime.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using attune::element_type;
using bench::benchmark_case;
using nlohmann::json;

const benchmark_case& case_named(const std::string& name) {
    const auto at = std::ranges::find(bench::cases(), name, &benchmark_case::name);
    if (at == bench::cases().end()) throw std::invalid_argument("expected a case of the table, got " + name);
    return *at;
}

/// The tensors of one case.
struct problem {
    benchmark_case of;
    std::vector<std::byte> q, k, v, out;
    std::vector<float> slopes, bias, q2, k2, gates;
    std::vector<std::int32_t> document, lengths;

    explicit problem(const benchmark_case& c) : of(c) {
        const auto bytes = [&](std::int64_t heads, std::int64_t length) {
            return static_cast<std::size_t>(c.batch * heads * length * c.depth * attune::bytes_of(c.element));
        };
        q.resize(bytes(c.heads, c.queries)), out.resize(q.size()), k.resize(bytes(c.key_heads, c.keys)),
            v.resize(k.size());
        slopes.resize(static_cast<std::size_t>(c.heads));
        if (c.variant == "bias") bias.resize(static_cast<std::size_t>(c.batch * c.heads * c.queries * c.keys));
        if (c.variant == "differential") q2.resize(q.size() / sizeof(float)), k2.resize(k.size() / sizeof(float));
        if (c.variant == "nsa") gates.resize(static_cast<std::size_t>(c.batch * c.heads * c.queries * 3));
        std::int32_t number = 0;
        for (const std::int64_t n : bench::document_lengths)
            document.insert(document.end(), static_cast<std::size_t>(n), number++);
        for (std::int64_t b = 0; b < c.batch; ++b)
            lengths.push_back(static_cast<std::int32_t>(c.variant == "chat" ? c.used : bench::keys_in_use(b, c.keys)));
    }

    attune::tensor view(std::vector<std::byte>& data, std::int64_t heads, std::int64_t length) const {
        return {of.element, static_cast<void*>(data.data()),
                std::vector<std::int64_t>{of.batch, heads, length, of.depth}};
    }

    /// Calls f with a variant's call, its arguments bound.
    template <class F> auto with(const std::string& variant, F f) {
        namespace dsl = attune::dsl;
        const attune::tensor Q = view(q, of.heads, of.queries), K = view(k, of.key_heads, of.keys),
                             V = view(v, of.key_heads, of.keys), O = view(out, of.heads, of.queries);
        if (of.element == element_type::bf16) {
            if (variant == "full")
                return f(attune::prepare<bench::full_of_halves>(dsl::q = Q, dsl::k = K, dsl::v = V, dsl::out = O));
            if (variant == "causal")
                return f(attune::prepare<bench::causal_of_halves>(dsl::q = Q, dsl::k = K, dsl::v = V, dsl::out = O));
            throw std::invalid_argument("expected full or causal, got " + variant + " of bf16");
        }
        if (of.depth != 64 && of.depth != 128) {
            if (variant == "padded")
                return f(attune::prepare<bench::full_of_depths>(
                    dsl::q = Q, dsl::k = K, dsl::v = V, dsl::out = O,
                    dsl::kv_lengths = attune::tensor(lengths.data(), {of.batch})));
            return f(attune::prepare<bench::full_of_depths>(dsl::q = Q, dsl::k = K, dsl::v = V, dsl::out = O));
        }
        const attune::tensor S(slopes.data(), {of.heads}),
            ids(document.data(), {static_cast<std::int64_t>(document.size())});
        if (variant == "chat")
            return f(
                attune::prepare<bench::full_attention>(dsl::q = Q, dsl::k = K, dsl::v = V, dsl::out = O,
                                                       dsl::kv_lengths = attune::tensor(lengths.data(), {of.batch})));
        if (variant == "full")
            return f(attune::prepare<bench::full_attention>(dsl::q = Q, dsl::k = K, dsl::v = V, dsl::out = O));
        if (variant == "causal")
            return f(attune::prepare<bench::causal_attention>(dsl::q = Q, dsl::k = K, dsl::v = V, dsl::out = O));
        if (variant == "window")
            return f(attune::prepare<bench::window_attention>(dsl::q = Q, dsl::k = K, dsl::v = V, dsl::out = O));
        if (variant == "alibi")
            return f(attune::prepare<bench::alibi_attention>(dsl::q = Q, dsl::k = K, dsl::v = V, bench::slopes = S,
                                                             dsl::out = O));
        if (variant == "softcap")
            return f(attune::prepare<bench::softcap_attention>(dsl::q = Q, dsl::k = K, dsl::v = V, dsl::out = O));
        if (variant == "documents")
            return f(attune::prepare<bench::documents_attention>(dsl::q = Q, dsl::k = K, dsl::v = V,
                                                                 bench::document = ids, dsl::out = O));
        if (variant == "documents_causal")
            return f(attune::prepare<bench::documents_causal_attention>(dsl::q = Q, dsl::k = K, dsl::v = V,
                                                                        bench::document = ids, dsl::out = O));
        if (variant == "bias" && !bias.empty())
            return f(attune::prepare<bench::bias_attention>(
                dsl::q = Q, dsl::k = K, dsl::v = V, dsl::out = O,
                bench::bias = attune::tensor(bias.data(), {of.batch, of.heads, of.queries, of.keys})));
        if (variant == "differential" && !q2.empty())
            return f(attune::prepare<bench::differential_attention>(
                dsl::q = Q, dsl::k = K, dsl::v = V, bench::slopes = S, dsl::out = O,
                bench::q2 = attune::tensor(q2.data(), Q.shape()), bench::k2 = attune::tensor(k2.data(), K.shape())));
        if (variant == "moba")
            return f(attune::prepare<bench::moba_attention>(dsl::q = Q, dsl::k = K, dsl::v = V, dsl::out = O));
        if (variant == "nsa" && !gates.empty())
            return f(attune::prepare<bench::nsa_attention>(
                dsl::q = Q, dsl::k = K, dsl::v = V, dsl::out = O,
                bench::gates = attune::tensor(gates.data(), {of.batch, of.heads, of.queries, 3})));
        throw std::invalid_argument("expected a variant of the table that the loaded tensors are for, got " + variant);
    }
};

json call_once(problem& given, const std::string& variant) {
    return given.with(variant, [](const auto& call) -> json {
        call();
        const attune::explanation what = call.explain();
        return {{"threads", what.threads},
                {"kernel", what.kernel},
                {"target", what.target},
                {"schedule", what.schedule},
                {"visited", static_cast<double>(what.blocks_visited) /
                                static_cast<double>(std::max<std::int64_t>(what.blocks, 1))}};
    });
}

/// Of all that this process times: a case is compared with the best of what was measured beside earlier ones, too.
attune::support::peaks peaks;

const attune::support::instruction& multiplies(const attune::explanation& what) {
    return attune::support::instruction_of(what.target, what.schedule);
}

json time_calls(problem& given, const std::string& variant, int repeats) {
    return given.with(variant, [&](const auto& call) -> json {
        const attune::explanation what = call.explain();
        double peak = 0;
        call();
        const auto burst = [&] { peak = peaks.again(multiplies(what), what.threads); };
        const auto seconds = attune::support::seconds_beside(burst, [&] { call(); }, repeats);
        return {{"seconds", seconds}, {"peak", {{"of", multiplies(what).name}, {"gigaflops", peak}}}};
    });
}

std::vector<double> seconds_of_reading(const problem& given, int repeats) {
    return attune::support::seconds_to_read(
        std::array{std::as_bytes(std::span(given.k)), std::as_bytes(std::span(given.v))}, attune::threads(), repeats);
}

/// The level that kernels are chosen by, not the widest that the CPU has.
std::string target() {
    for (const auto& kernel : attune::kernels<bench::full_attention>().entries)
        if (kernel.chosen) return std::string(kernel.target);
    return {};
}

double multiply_add_gigaflops() {
    double best = 0;
    for (int i = 0; i < 16; ++i) best = peaks.again(attune::support::instruction_of(target(), {}), attune::threads());
    return best;
}

json machine() {
    const int threads = attune::threads();
    return {{"threads", threads},
            {"target", target()},
            {"gigaflops", multiply_add_gigaflops()},
            {"gigabytes", attune::support::read_gigabytes(threads)}};
}

template <class T> void read(const std::filesystem::path& file, std::vector<T>& into) {
    const auto bytes = static_cast<std::streamsize>(into.size() * sizeof(T));
    if (!std::ifstream(file, std::ios::binary).read(reinterpret_cast<char*>(into.data()), bytes))
        throw std::runtime_error(file.string() + ": expected " + std::to_string(bytes) + " bytes");
}

json answer(std::unique_ptr<problem>& given, const std::filesystem::path& folder, const std::string& line) {
    std::istringstream words(line);
    std::string command, what;
    words >> command;
    if (command == "machine") return machine();
    if (command == "cases") {
        json table = json::array();
        for (const benchmark_case& c : bench::cases())
            table.push_back({{"name", c.name},
                             {"variant", c.variant},
                             {"dtype", name_of(c.element)},
                             {"used", c.used},
                             {"shape", {c.batch, c.heads, c.key_heads, c.queries, c.keys, c.depth}},
                             {"flops", c.flops()},
                             {"bytes", c.bytes()}});
        return {{"cases", table},
                {"documents", bench::document_lengths},
                {"window", bench::window_keys},
                {"block", bench::block_keys},
                {"chosen", {{"moba", bench::moba_blocks}, {"nsa", bench::nsa_blocks}}},
                {"nsa_window", bench::nsa_window}};
    }
    words >> what;
    if (command == "load") {
        given = std::make_unique<problem>(case_named(what));
        read(folder / "q.bin", given->q), read(folder / "k.bin", given->k), read(folder / "v.bin", given->v);
        if (given->of.variant == "alibi" || given->of.variant == "differential")
            read(folder / "slopes.bin", given->slopes);
        if (given->of.variant == "differential") read(folder / "q2.bin", given->q2), read(folder / "k2.bin", given->k2);
        if (given->of.variant == "bias") read(folder / "bias.bin", given->bias);
        if (given->of.variant == "nsa") read(folder / "gates.bin", given->gates);
        return {{"lengths", given->lengths}};
    }
    if (!given) throw std::invalid_argument("expected load before run and time");
    if (command == "run") {
        const json said = call_once(*given, what);
        std::ofstream(folder / "out.bin", std::ios::binary)
            .write(reinterpret_cast<const char*>(given->out.data()), static_cast<std::streamsize>(given->out.size()));
        return said;
    }
    int repeats = 0;
    if (command == "read" && std::istringstream(what) >> repeats)
        return {{"seconds", seconds_of_reading(*given, repeats)}};
    if (command == "time" && words >> repeats) return time_calls(*given, what, repeats);
    throw std::invalid_argument("expected cases, machine, load, run, time or read, got " + line);
}

int serve(const std::filesystem::path& folder) {
    std::unique_ptr<problem> given;
    bench::answer_lines([&](const std::string& line) { return answer(given, folder, line); });
    return 0;
}

void fill(problem& given) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    const auto draw = [&](std::vector<std::byte>& data) {
        const auto size = static_cast<std::size_t>(attune::bytes_of(given.of.element));
        for (std::size_t at = 0; at < data.size(); at += size) {
            const float x = normal(random);
            const attune::bfloat16 half(x);
            std::copy_n(size == 4 ? reinterpret_cast<const std::byte*>(&x) : reinterpret_cast<const std::byte*>(&half),
                        size, data.begin() + static_cast<std::ptrdiff_t>(at));
        }
    };
    draw(given.q), draw(given.k), draw(given.v);
    for (std::size_t h = 0; h < given.slopes.size(); ++h) given.slopes[h] = 1.0f / static_cast<float>(2 << h);
    for (std::vector<float>* each : {&given.bias, &given.q2, &given.k2, &given.gates})
        for (float& x : *each) x = normal(random);
}

void time_case(benchmark::State& state, const benchmark_case& c) {
    problem given(c);
    fill(given);
    given.with(c.variant, [&](const auto& call) {
        const attune::explanation what = call.explain();
        call();
        const auto start = std::chrono::steady_clock::now();
        for (auto _ : state) call();
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        peaks.again(multiplies(what), what.threads);
        const double gigaflops = c.flops() * static_cast<double>(state.iterations()) / seconds * 1e-9;
        const double share = peaks.share(gigaflops, multiplies(what), what.threads);
        state.counters["of peak"] = share;
        state.SetLabel(attune::support::remark(share, multiplies(what)));
        return 0;
    });
    const double calls = static_cast<double>(state.iterations());
    state.counters["GFLOP/s"] = benchmark::Counter(c.flops() * calls * 1e-9, benchmark::Counter::kIsRate);
    state.counters["GB/s"] = benchmark::Counter(c.bytes() * calls * 1e-9, benchmark::Counter::kIsRate);
}

/// The bound that no kernel exceeds, by the name of a case of the table.
void time_machine(benchmark::State& state, bool reads) {
    const int threads = attune::threads();
    double rate = 0;
    for (auto _ : state) rate = reads ? attune::support::read_gigabytes(threads) : multiply_add_gigaflops();
    state.counters[reads ? "GB/s" : "GFLOP/s"] = rate;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view first = argc > 1 ? argv[1] : "";
    if (first == "--serve" && argc == 3) return serve(argv[2]);
    if (first == "--serve") {
        std::cerr << "usage: attune_benchmark --serve <folder>    (driven by tests/benchmarks/compare.py)\n";
        return 2;
    }
    benchmark::RegisterBenchmark("machine/multiply_add", [](benchmark::State& state) { time_machine(state, false); })
        ->Iterations(1)
        ->UseRealTime();
    benchmark::RegisterBenchmark("machine/read", [](benchmark::State& state) { time_machine(state, true); })
        ->Iterations(1)
        ->UseRealTime();
    for (const benchmark_case& c : bench::cases())
        benchmark::RegisterBenchmark(c.name.c_str(), [&c](benchmark::State& state) { time_case(state, c); })
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::AddCustomContext("attune target", target());
    benchmark::AddCustomContext("attune threads", std::to_string(attune::threads()));
    benchmark::RunSpecifiedBenchmarks();
}
