// A step of decode as one call - queries and new keys normalised and rotated, new keys and values stored in the cache -
// beside attention alone over the same cache, and attention of normalised and rotated queries, call by call in turn.
//
//     attune_step --sequences 1 4 --keys 4096 4096 [--queries 1] [--json]
#include "caches.hpp"
#include "memory.hpp"

#include "kernel/kernel_list.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/runtime.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <numeric>
#include <random>

namespace {

using attune::element_type;
using bench::memory;
namespace step = bench::caches::step;

struct shape {
    std::int64_t sequences, queries, heads, key_heads, keys, depth;
};

struct cache {
    std::string name;
    attune::graph_ir attention, rotated, step;
};

/// Every tensor that one of the graphs reads or writes, by name.
class tensors {
public:
    explicit tensors(const shape& s) : s_(s) {
        using enum element_type;
        const std::int64_t b = s.sequences, hk = s.key_heads, d = s.depth, blocks = (s.keys + 63) / 64;
        add("q", f32, {b, s.heads, s.queries, d}), add("out", f32, {b, s.heads, s.queries, d});
        for (const char* name : {"k", "v"}) add(name, f32, {b, hk, s.keys, d});
        for (const char* name : {"k8", "v8"}) add(name, i8, {b, hk, s.keys, d});
        for (const char* name : {"k_scale", "v_scale"}) add(name, f32, {b, hk, s.keys});
        for (const char* name : {"k_pages", "v_pages"}) add(name, bf16, {b * blocks, hk, 64, d});
        for (const char* name : {"k_new", "v_new"}) add(name, f32, {b, hk, s.queries, d});
        for (const char* name : {"cosine", "sine"}) add(name, f32, {s.keys, d / 2});
        add("gain", f32, {d});
        const auto entries = add("block_table", i32, {b, blocks}).as<std::int32_t>();
        std::iota(entries.begin(), entries.end(), 0);
        std::shuffle(entries.begin(), entries.end(), std::minstd_rand(3));
    }

    std::vector<attune::detail::named_argument> of(const attune::graph_ir& graph) {
        std::vector<attune::detail::named_argument> all{{.name = "out", .view = views_.at("out")}};
        for (const attune::input_declaration& d : graph.inputs)
            all.push_back({.name = d.name, .view = views_.at(std::string(d.name))});
        return all;
    }

private:
    memory& add(const std::string& name, element_type type, std::vector<std::int64_t> extents) {
        memory& made = memory_.emplace_back(type, std::move(extents));
        views_.emplace(name, made.view());
        return made;
    }
    shape s_;
    std::deque<memory> memory_;
    std::map<std::string, attune::tensor> views_;
};

double median(std::vector<double> of) {
    std::sort(of.begin(), of.end());
    return of[of.size() / 2];
}

class compiled {
public:
    compiled(const std::string& name, const attune::graph_ir& graph, const std::string& level, std::int64_t depth)
        : of_{"bench::" + name, graph},
          kernel_(attune::generators::kernels_of(
                      {&of_, 1},
                      {.targets = {level}, .dtypes = {"f32"}, .depths = {std::to_string(depth)}, .shapes = {"decode"}})
                      .front()) {}
    std::shared_ptr<const attune::detail::prepared> prepare(tensors& with) const {
        return attune::detail::prepare(kernel_.table(), with.of(of_.graph), {});
    }

private:
    attune::generators::variant of_;
    attune::generators::jit_kernel kernel_;
};

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::int64_t> sequences{1, 4}, keys{4096, 4096};
    std::int64_t heads = 32, key_heads = 8, depth = 128, queries = 1;
    int repeats = 101;
    bool json = false;
    CLI::App app{"Times a step of decode that normalises, rotates and stores, beside attention alone, call by call."};
    app.add_option("--sequences", sequences, "for each length of --keys")->capture_default_str();
    app.add_option("--keys", keys, "of each sequence")->capture_default_str();
    app.add_option("--queries", queries, "of each sequence")->capture_default_str();
    app.add_option("--heads", heads, "of queries")->capture_default_str();
    app.add_option("--key-heads", key_heads)->capture_default_str();
    app.add_option("--depth", depth)->capture_default_str();
    app.add_option("--repeats", repeats)->capture_default_str();
    app.add_flag("--json", json, "one object a line");
    CLI11_PARSE(app, argc, argv);
    if (sequences.size() != keys.size()) {
        fmt::print(stderr, "expected as many --sequences as --keys, got {} and {}\n", sequences.size(), keys.size());
        return 1;
    }

    using attune::dsl::ir_of;
    const cache caches[] = {
        {"f32", ir_of<step::contiguous>, ir_of<step::contiguous_rotated>, ir_of<step::contiguous_step>},
        {"i8", ir_of<step::of_codes>, ir_of<step::codes_rotated>, ir_of<step::step_of_codes>},
        {"bf16 pages", ir_of<step::of_pages>, ir_of<step::pages_rotated>, ir_of<step::step_of_pages>}};
    std::string level;
    for (const attune::generators::level& each : attune::generators::levels())
        if (level.empty() && attune::runs(each.name)) level = each.name;
    if (!json)
        fmt::print("{}; heads {} over {}, depth {}, {} threads\n{:<12} {:>9} {:>7} {:>9} {:>10} {:>9} {:>6}\n", level,
                   heads, key_heads, depth, attune::threads(), "cache", "sequences", "keys", "alone ms", "rotated ms",
                   "step ms", "ratio");
    for (const cache& each : caches) {
        const compiled attention(each.name, each.attention, level, depth),
            rotated(each.name + "_rotated", each.rotated, level, depth),
            whole(each.name + "_step", each.step, level, depth);
        for (std::size_t i = 0; i < keys.size(); ++i) {
            tensors with({sequences[i], queries, heads, key_heads, keys[i], depth});
            const auto alone = attention.prepare(with), turned = rotated.prepare(with), stored = whole.prepare(with);
            std::vector<double> of_alone, of_rotated, of_step;
            for (int repeat = -3; repeat < repeats; ++repeat)
                for (const auto& [call, times] :
                     {std::pair(alone.get(), &of_alone), {turned.get(), &of_rotated}, {stored.get(), &of_step}}) {
                    const auto start = std::chrono::steady_clock::now();
                    attune::detail::call(*call);
                    if (repeat >= 0)
                        times->push_back(
                            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
                }
            const double ms = median(of_alone) * 1e3, rotated_ms = median(of_rotated) * 1e3,
                         step_ms = median(of_step) * 1e3;
            if (json)
                fmt::print("{}\n", nlohmann::ordered_json{{"cache", each.name},
                                                          {"level", level},
                                                          {"threads", attune::threads()},
                                                          {"sequences", sequences[i]},
                                                          {"keys", keys[i]},
                                                          {"queries", queries},
                                                          {"heads", heads},
                                                          {"key_heads", key_heads},
                                                          {"depth", depth},
                                                          {"alone_ms", ms},
                                                          {"rotated_ms", rotated_ms},
                                                          {"step_ms", step_ms}}
                                       .dump());
            else
                fmt::print("{:<12} {:>9} {:>7} {:>9.3f} {:>10.3f} {:>9.3f} {:>6.3f}\n", each.name, sequences[i],
                           keys[i], ms, rotated_ms, step_ms, step_ms / ms);
        }
    }
}
