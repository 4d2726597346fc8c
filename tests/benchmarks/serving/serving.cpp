// Decode over the caches that engines keep: what share each draws of the rate at which its bytes can be read, in the
// same order, measured between its calls.
//
//     attune_serving --caches f32 bf16 "paged f32 64" --sequences 1 4 --keys 16384 4096 [--json]
//     attune_serving --caches f32 bf16 "paged f32 16" --sequences 1 1 --keys 32 512 --slots 4160    a short chat
//     attune_serving --caches f32 bf16 i8 --sequences 4 --keys 4096 --threads 1 2 --busy 0 1    beside busy neighbours
#include "known_caches.hpp"
#include "neighbours.hpp"

#include "commands/schedule_option.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/runtime.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>

namespace {

using bench::cache, bench::call, bench::shape;

double seconds_of(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> of) {
    std::sort(of.begin(), of.end());
    return of[of.size() / 2];
}

struct call_times {
    double median, fastest, reading;
};

/// Seconds of a prepared call, and of reading what it reads, in turn; `alone`: of calls that follow each other.
call_times times_beside_reading(const attune::generators::jit_kernel& kernel, const call& given, int repeats,
                                int threads, bool alone) {
    std::vector<double> ours, reading;
    const auto prepared = attune::detail::prepare(kernel.table(), given.arguments, {});
    for (int repeat = -1; repeat < repeats; ++repeat) {
        const double once = seconds_of([&] { attune::detail::call(*prepared); });
        const double read = alone ? 0 : bench::seconds_to_read(given.read, threads);
        if (repeat < 0) continue;
        ours.push_back(once), reading.push_back(read);
    }
    return {median(ours), *std::min_element(ours.begin(), ours.end()), median(reading)};
}

/// A kernel for decode over a cache.
struct compiled_cache {
    compiled_cache(const cache& of_cache, const std::string& level, std::int64_t depth, const std::string& cut)
        : of{"bench::" + of_cache.name, of_cache.graph},
          list(attune::generators::kernels_of({&of, 1}, {.targets = {level},
                                                         .dtypes = {of_cache.dtype},
                                                         .depths = {std::to_string(depth)},
                                                         .shapes = {"decode"}})) {
        list[0].request.schedule = attune::generators::schedule_with(list[0].request, cut);
        made.emplace(list[0]);
    }
    compiled_cache(const compiled_cache&) = delete;
    attune::generators::variant of;
    std::vector<attune::generators::listed_kernel> list;
    std::optional<attune::generators::jit_kernel> made;
};

/// How far the output that was made last is from that of another kernel for the same call, of its largest element.
double error_beside(const attune::generators::jit_kernel& exact, call& given) {
    const std::span<float> out = given.tensors.back().as<float>();
    const std::vector<float> rounded(out.begin(), out.end());
    attune::detail::call(exact.table(), given.arguments, {});
    double largest = 0, furthest = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
        largest = std::max(largest, std::abs(double(out[i])));
        furthest = std::max(furthest, std::abs(double(out[i]) - double(rounded[i])));
    }
    std::copy(rounded.begin(), rounded.end(), out.begin());
    return furthest / largest;
}

/// The bytes that a call read and that it made of them.
void save(call& of, const std::string& path) {
    const auto write = [&path](const char* what, std::span<const std::span<const std::byte>> pieces) {
        std::ofstream file(path + what, std::ios::binary);
        for (const auto& piece : pieces)
            file.write(reinterpret_cast<const char*>(piece.data()), static_cast<std::streamsize>(piece.size()));
        if (!file.flush()) throw std::runtime_error(fmt::format("expected to write {}{}, could not", path, what));
    };
    const std::span<const std::byte> out = of.tensors.back().bytes(), q = std::prev(of.tensors.end(), 2)->bytes();
    write(".q", {&q, 1}), write(".read", of.read), write(".out", {&out, 1});
}

struct row {
    std::string cache, level;
    int threads, busy;
    shape of;
    std::size_t bytes;
    call_times seconds;
    std::optional<double> error;  ///< of rounding: the largest, of the largest output
};

void print(const row& r, bool json) {
    const double ms = r.seconds.median * 1e3, read_ms = r.seconds.reading * 1e3, megabytes = double(r.bytes) * 1e-6;
    if (json)
        fmt::print("{}\n", nlohmann::ordered_json{{"cache", r.cache},
                                                  {"level", r.level},
                                                  {"threads", r.threads},
                                                  {"busy", r.busy},
                                                  {"sequences", r.of.sequences},
                                                  {"keys", r.of.keys},
                                                  {"slots", r.of.slots},
                                                  {"heads", r.of.heads},
                                                  {"key_heads", r.of.key_heads},
                                                  {"depth", r.of.depth},
                                                  {"bytes", r.bytes},
                                                  {"ms", ms},
                                                  {"fastest_ms", r.seconds.fastest * 1e3},
                                                  {"read_ms", read_ms},
                                                  {"error", r.error.value_or(0)}}
                               .dump());
    else
        fmt::print("{:<18} {:>7} {:>4} {:>10} {:>9} {:>9.1f} {:>9.3f} {:>8.1f} {:>7.0f}%{}\n", r.cache, r.threads,
                   r.busy, r.of.sequences, r.of.keys, megabytes, ms, megabytes / ms, 100 * read_ms / ms,
                   r.error ? fmt::format(" {:>8.1e}", *r.error) : "");
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<cache> known = bench::all_caches();
    std::vector<std::string> names, schedules;
    for (const cache& each : known) names.push_back(each.name);
    std::vector<std::string> wanted = names;
    std::vector<std::int64_t> sequences{1, 4}, keys{16384, 4096};
    std::int64_t heads = 32, key_heads = 8, depth = 128, queries = 1, slots = 0;
    std::vector<int> threads_each{attune::threads()}, busy{0};
    int repeats = 15;
    std::string cut, folder;
    bool json = false, alone = false;
    CLI::App app{
        "Times decode over the caches that engines keep, and says what share of the rate of plain reading each call "
        "draws: the same bytes, read in the same order by as many threads, between the calls."};
    app.add_option("--caches", wanted, fmt::format("some of: {}", fmt::join(names, ", ")))->check(CLI::IsMember(names));
    app.add_option("--sequences", sequences, "for each length of --keys")->capture_default_str();
    app.add_option("--keys", keys, "of each sequence")->capture_default_str();
    app.add_option("--slots", slots, "that each sequence has room for; 0: as many as keys")->capture_default_str();
    app.add_option("--heads", heads, "of queries")->capture_default_str();
    app.add_option("--key-heads", key_heads)->capture_default_str();
    app.add_option("--depth", depth)->capture_default_str();
    app.add_option("--queries", queries, "of each sequence")->capture_default_str();
    app.add_option("--threads", threads_each, "of the calls, one after the other")->check(CLI::Range(1, 4096));
    app.add_option("--busy", busy, "CPUs that something else takes, one after the other")
        ->check(CLI::Range(0, static_cast<int>(std::thread::hardware_concurrency())));
    app.add_option("--schedule", cut, "another schedule: a JSON object with some of its fields");
    app.add_option("--repeats", repeats)->capture_default_str();
    app.add_flag("--alone", alone, "calls follow each other; nothing is read in between");
    app.add_option("--save", folder, "for what each call read, in its order: <cache> <keys>.q, .read and .out, bytes")
        ->check(CLI::ExistingDirectory);
    app.add_flag("--json", json, "one object a line");
    CLI11_PARSE(app, argc, argv);
    if (sequences.size() != keys.size()) {
        fmt::print(stderr, "expected as many --sequences as --keys, got {} and {}\n", sequences.size(), keys.size());
        return 1;
    }

    std::string level;
    for (const attune::generators::level& each : attune::generators::levels())
        if (level.empty() && attune::runs(each.name)) level = each.name;
    if (!json)
        fmt::print("{}; heads {} over {}, depth {}\n{:<18} {:>7} {:>4} {:>10} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8}\n",
                   level, heads, key_heads, depth, "cache", "threads", "busy", "sequences", "keys", "MB", "ms", "GB/s",
                   "of read", "error");
    for (const cache& each : known) {
        if (std::find(wanted.begin(), wanted.end(), each.name) == wanted.end()) continue;
        const compiled_cache kernel(each, level, depth, cut);
        std::optional<compiled_cache> exact;
        for (const cache& other : known)
            if (other.name == each.exact) exact.emplace(other, level, depth, cut);
        for (std::size_t i = 0; i < keys.size(); ++i) {
            const shape s{sequences[i], heads, key_heads, keys[i], depth, std::max(slots, keys[i])};
            std::vector<std::int32_t> lengths(static_cast<std::size_t>(s.sequences), static_cast<std::int32_t>(s.keys));
            call given;
            given.tensors.reserve(16);
            each.fill(given, s);
            const auto& types = kernel.list[0].request.types;
            given.add("q", bench::memory(types.query, {s.sequences, heads, queries, depth}));
            given.add("out", bench::memory(types.output, {s.sequences, heads, queries, depth}));
            given.give("kv_lengths", attune::tensor(lengths.data(), {s.sequences}));
            std::size_t size = 0;
            for (const auto& piece : given.read) size += piece.size();
            for (const int threads : threads_each)
                for (const int taken : busy) {
                    attune::set_threads(threads);
                    const bench::neighbours beside(taken);
                    print({each.name, level, threads, taken, s, size,
                           times_beside_reading(*kernel.made, given, repeats, threads, alone),
                           exact ? std::optional(error_beside(*exact->made, given)) : std::nullopt},
                          json);
                }
            if (!folder.empty()) save(given, fmt::format("{}/{} {}", folder, each.name, s.keys));
        }
    }
}
