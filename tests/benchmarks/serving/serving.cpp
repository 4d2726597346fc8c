// Decode over the caches that engines keep: what share each draws of the rate at which its bytes can be read, in the
// same order, measured between its calls.
//
//     attune_serving --caches f32 bf16 "paged f32 64" --sequences 1 4 --keys 16384 4096 [--json]
//     attune_serving --caches f32 bf16 "paged f32 16" --sequences 1 1 --keys 32 512 --slots 4160    a short chat
//     attune_serving --caches f32 bf16 i8 --sequences 4 --keys 4096 --threads 1 2 --busy 0 1    beside busy neighbours
#include "caches.hpp"
#include "memory.hpp"
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

using attune::element_type;
using bench::memory;
namespace caches = bench::caches;

struct shape {
    std::int64_t sequences, heads, key_heads, keys, depth;
    std::int64_t slots;  ///< that there is room for; so many keys are in use
};

/// A call's arguments, and the bytes that it has to read.
struct call {
    std::vector<memory> tensors;
    std::vector<attune::detail::named_argument> arguments;
    std::vector<std::span<const std::byte>> read;  ///< in the order in which the cache is read

    void add(std::string_view name, memory made) {
        tensors.push_back(std::move(made));
        give(name, tensors.back().view());
    }
    /// Of each of so many pieces of a tensor, the slots in use are read.
    void add(std::string_view name, memory made, std::int64_t pieces, const shape& s) {
        add(name, std::move(made));
        read_pieces(pieces, s);
    }
    void read_pieces(std::int64_t pieces, const shape& s) {
        const std::span<const std::byte> whole = tensors.back().bytes();
        const std::size_t piece = whole.size() / static_cast<std::size_t>(pieces),
                          used = piece / static_cast<std::size_t>(s.slots) * static_cast<std::size_t>(s.keys);
        for (std::size_t i = 0; i < static_cast<std::size_t>(pieces); ++i)
            read.push_back(whole.subspan(i * piece, used));
    }
    attune::tensor give(std::string_view name, attune::tensor view) {
        arguments.push_back({.name = name, .view = view});
        return view;
    }
};

struct cache {
    std::string name;
    attune::graph_ir graph;
    std::string dtype;
    std::function<void(call&, const shape&)> fill;
    std::string exact{};  ///< the cache that this one would be without rounding, if it rounds
};

void contiguous(call& to, const shape& s, element_type type) {
    for (const char* name : {"k", "v"})
        to.add(name, memory(type, {s.sequences, s.key_heads, s.slots, s.depth}), s.sequences * s.key_heads, s);
}

/// The last keys of each head are read.
void last_keys(call& to, const shape& s, element_type type, std::int64_t count) {
    const std::int64_t bytes_a_key = s.depth * static_cast<std::int64_t>(attune::bytes_of(type)),
                       used = std::min(s.keys, count);
    for (const char* name : {"k", "v"}) {
        to.add(name, memory(type, {s.sequences, s.key_heads, s.slots, s.depth}));
        for (std::int64_t head = 0; head < s.sequences * s.key_heads; ++head)
            to.read.push_back(to.tensors.back().bytes().subspan(
                static_cast<std::size_t>((head * s.slots + s.keys - used) * bytes_a_key),
                static_cast<std::size_t>(used * bytes_a_key)));
    }
}

void sliding(call& to, const shape& s, element_type type) {
    last_keys(to, s, type, 128);
    to.add("sinks", memory(element_type::f32, {s.heads}));
}

void first_and_last(call& to, const shape& s, element_type type) { last_keys(to, s, type, 64); }

/// (sequence, token, head, channel), as projections leave them.
void token_major(call& to, const shape& s, element_type type) {
    for (const char* name : {"k", "v"}) {
        to.tensors.emplace_back(type, std::vector{s.sequences, s.slots, s.key_heads, s.depth});
        to.read_pieces(s.sequences, s);
        to.give(name, to.tensors.back().view().swapped(1, 2));
    }
}

/// A token's key and value side by side.
void pairs(call& to, const shape& s, element_type type) {
    to.add("kv", memory(type, {s.sequences, s.key_heads, s.slots, 2, s.depth}), s.sequences * s.key_heads, s);
}

/// Steps of codes, which are positive.
memory scales(std::vector<std::int64_t> shape) {
    memory made(element_type::f32, std::move(shape));
    for (float& x : made.as<float>()) x = 0.01f * (std::abs(x) + 0.1f);
    return made;
}

void bytes(call& to, const shape& s, element_type type) {
    const std::int64_t pieces = s.sequences * s.key_heads;
    for (const char* name : {"k8", "v8"})
        to.add(name, memory(type, {s.sequences, s.key_heads, s.slots, s.depth}), pieces, s);
    for (const char* name : {"k_scale", "v_scale"})
        to.add(name, scales({s.sequences, s.key_heads, s.slots}), pieces, s);
}

void nibbles(call& to, const shape& s, bool in_groups) {
    for (const char* name : {"k4", "v4"})
        to.add(name, memory(element_type::u8, {s.sequences, s.key_heads, s.slots, s.depth / 2}),
               s.sequences * s.key_heads, s);
    std::vector<std::int64_t> each{s.sequences, s.key_heads, s.slots};
    if (in_groups) each.push_back(s.depth / 32);
    for (const char* name : {"k_scale", "v_scale"}) to.add(name, scales(each), s.sequences * s.key_heads, s);
}

/// Pages in random order; they are read head by head, sequence by sequence.
void paged(call& to, const shape& s, element_type type, std::int64_t tokens) {
    const std::int64_t blocks = (s.slots + tokens - 1) / tokens, used = (s.keys + tokens - 1) / tokens,
                       pages = s.sequences * blocks;
    memory table(element_type::i32, {s.sequences, blocks});
    const std::span<std::int32_t> entries = table.as<std::int32_t>();
    for (std::size_t i = 0; i < entries.size(); ++i) entries[i] = static_cast<std::int32_t>(i);
    std::shuffle(entries.begin(), entries.end(), std::minstd_rand(3));
    const std::vector<std::int32_t> order(entries.begin(), entries.end());
    to.add("block_table", std::move(table));
    const auto pieces = [&](const memory& pool, std::int64_t page_bytes) {
        for (std::int64_t b = 0; b < s.sequences; ++b)
            for (std::int64_t h = 0; h < s.key_heads; ++h)
                for (std::int64_t i = 0; i < used; ++i)
                    to.read.push_back(pool.bytes().subspan(
                        static_cast<std::size_t>((order[static_cast<std::size_t>(b * blocks + i)] * s.key_heads + h) *
                                                 page_bytes),
                        static_cast<std::size_t>(page_bytes)));
    };
    for (const char* name : {"k_pages", "v_pages"}) {
        to.add(name, memory(type, {pages, s.key_heads, tokens, s.depth}));
        pieces(to.tensors.back(), tokens * s.depth * static_cast<std::int64_t>(attune::bytes_of(type)));
    }
    if (type != element_type::u8) return;
    for (const char* name : {"k_scale", "v_scale"}) {
        to.add(name, scales({pages, s.key_heads, tokens}));
        pieces(to.tensors.back(), tokens * 4);
    }
}

void rotated(call& to, const shape& s) {
    contiguous(to, s, element_type::f32);
    for (const char* name : {"cosine", "sine"}) to.add(name, memory(element_type::f32, {s.slots, s.depth / 2}));
}

std::vector<cache> all_caches() {
    using attune::dsl::ir_of;
    using namespace std::placeholders;
    const attune::graph_ir plain = ir_of<caches::contiguous>;
    return {
        {"f32", plain, "f32", std::bind(contiguous, _1, _2, element_type::f32)},
        {"bf16", plain, "bf16", std::bind(contiguous, _1, _2, element_type::bf16)},
        {"f32 token-major", plain, "f32", std::bind(token_major, _1, _2, element_type::f32)},
        {"bf16 token-major", plain, "bf16", std::bind(token_major, _1, _2, element_type::bf16)},
        {"f32 side by side", ir_of<caches::pairs_f32>, "f32", std::bind(pairs, _1, _2, element_type::f32)},
        {"bf16 side by side", ir_of<caches::pairs_bf16>, "f32", std::bind(pairs, _1, _2, element_type::bf16)},
        {"u8", ir_of<caches::bytes::attention>, "f32", std::bind(bytes, _1, _2, element_type::u8)},
        {"i8", ir_of<caches::of_i8>, "f32", std::bind(bytes, _1, _2, element_type::i8)},
        {"i8, q in i8", ir_of<caches::of_i8_and_codes>, "f32", std::bind(bytes, _1, _2, element_type::i8), "i8"},
        {"i8, q i8, p i16", ir_of<caches::of_i8_and_two_digits>, "f32", std::bind(bytes, _1, _2, element_type::i8),
         "i8"},
        {"i8, q i8, p u8", ir_of<caches::of_i8_and_one_digit>, "f32", std::bind(bytes, _1, _2, element_type::i8), "i8"},
        {"packed 4 bits", ir_of<caches::nibbles::attention>, "f32", std::bind(nibbles, _1, _2, true)},
        {"4 bits, a token", ir_of<caches::nibbles::of_tokens>, "f32", std::bind(nibbles, _1, _2, false)},
        {"4 bits, i8, u8", ir_of<caches::nibbles::of_codes>, "f32", std::bind(nibbles, _1, _2, false),
         "4 bits, a token"},
        {"f8_e4m3", ir_of<caches::of_e4m3>, "f32", std::bind(bytes, _1, _2, element_type::f8_e4m3)},
        {"f8_e5m2", ir_of<caches::of_e5m2>, "f32", std::bind(bytes, _1, _2, element_type::f8_e5m2)},
        {"paged f32 1", ir_of<caches::paged::f32_1>, "f32", std::bind(paged, _1, _2, element_type::f32, 1)},
        {"paged bf16 1", ir_of<caches::paged::bf16_1>, "f32", std::bind(paged, _1, _2, element_type::bf16, 1)},
        {"paged f32 16", ir_of<caches::paged::f32_16>, "f32", std::bind(paged, _1, _2, element_type::f32, 16)},
        {"paged f32 64", ir_of<caches::paged::f32_64>, "f32", std::bind(paged, _1, _2, element_type::f32, 64)},
        {"paged bf16 16", ir_of<caches::paged::bf16_16>, "f32", std::bind(paged, _1, _2, element_type::bf16, 16)},
        {"paged bf16 64", ir_of<caches::paged::bf16_64>, "f32", std::bind(paged, _1, _2, element_type::bf16, 64)},
        {"paged u8 16", ir_of<caches::paged::u8_16>, "f32", std::bind(paged, _1, _2, element_type::u8, 16)},
        {"paged u8 64", ir_of<caches::paged::u8_64>, "f32", std::bind(paged, _1, _2, element_type::u8, 64)},
        {"rotated f32", ir_of<caches::rotated::attention>, "f32", rotated},
        {"f32 first and last", ir_of<caches::sliding::first_and_last>, "f32",
         std::bind(first_and_last, _1, _2, element_type::f32)},
        {"f32 window, sink", ir_of<caches::sliding::attention>, "f32", std::bind(sliding, _1, _2, element_type::f32)},
        {"bf16 window, sink", ir_of<caches::sliding::attention>, "bf16",
         std::bind(sliding, _1, _2, element_type::bf16)}};
}

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
    const std::vector<cache> known = all_caches();
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
            given.add("q", memory(types.query, {s.sequences, heads, queries, depth}));
            given.add("out", memory(types.output, {s.sequences, heads, queries, depth}));
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
