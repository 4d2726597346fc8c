// Continuous batching: steps of an engine in which some sequences have one query and others a chunk of their prompt, in
// one call with cu_seqlens_q. Timed beside the calls that it takes the place of: one for all single queries and one for
// each chunk, and one a sequence.
//
//     attune_packed --dtype bf16
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
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

namespace {

using attune::element_type, attune::tensor;
using bench::memory;

constexpr std::int64_t page_tokens = 64;

/// Kernels for decode and for prefill at the best level of this machine.
struct compiled {
    compiled(const attune::graph_ir& graph, std::int64_t depth) : of{"bench::packed", graph} {
        std::string level;
        for (const attune::generators::level& each : attune::generators::levels())
            if (level.empty() && attune::runs(each.name)) level = each.name;
        for (const auto& each : attune::generators::kernels_of({&of, 1}, {.targets = {level},
                                                                          .dtypes = {"f32"},
                                                                          .depths = {std::to_string(depth)},
                                                                          .shapes = {"prefill", "decode"}})) {
            made.push_back(std::make_unique<attune::generators::jit_kernel>(each));
            rows.push_back(made.back()->table().kernels.front());
            rows.back().to_queries = each.to_queries;
        }
        table = {
            .version = attune::kernel_table_version, .variant = "bench::packed", .graph = of.graph, .kernels = rows};
    }
    attune::generators::variant of;
    std::vector<std::unique_ptr<attune::generators::jit_kernel>> made;
    std::vector<attune::kernel> rows;
    attune::kernel_table table{};
};

struct machine_shape {
    std::int64_t heads = 32, key_heads = 8, depth = 128;
    element_type type = element_type::f32;
};

/// A step: queries and keys of each sequence, those with one query first.
struct step {
    std::string name;
    std::vector<std::int32_t> queries, keys;
};

/// The sequences [first, last) of a step as a call.
class step_call {
public:
    step_call(const step& of, const machine_shape& m)
        : of_(of),
          m_(m),
          blocks_(pages_of(*std::max_element(of.keys.begin(), of.keys.end()))),
          starts_(of.queries.size() + 1),
          q_(element_type::f32,
             {std::accumulate(of.queries.begin(), of.queries.end(), std::int64_t{0}), m.heads, m.depth}),
          out_(element_type::f32,
               {std::accumulate(of.queries.begin(), of.queries.end(), std::int64_t{0}), m.heads, m.depth}),
          table_(element_type::i32, {static_cast<std::int64_t>(of.keys.size()), blocks_}),
          k_(m.type, {all_pages(), m.key_heads, page_tokens, m.depth}),
          v_(m.type, {all_pages(), m.key_heads, page_tokens, m.depth}) {
        std::partial_sum(of.queries.begin(), of.queries.end(), starts_.begin() + 1);
        std::vector<std::int32_t> order(static_cast<std::size_t>(all_pages()));
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), std::minstd_rand(3));
        std::size_t next = 0;
        for (std::size_t b = 0; b < of.keys.size(); ++b)
            for (std::int64_t i = 0; i < blocks_; ++i)
                table_.as<std::int32_t>()[b * static_cast<std::size_t>(blocks_) + static_cast<std::size_t>(i)] =
                    i < pages_of(of.keys[b]) ? order[next++] : -1;
    }

    void packed(const compiled& kernels) { run(kernels, 0, of_.keys.size(), true); }
    void each(const compiled& kernels) {
        for (std::size_t b = 0; b < of_.keys.size(); ++b) run(kernels, b, b + 1, false);
    }
    /// Neighbours with the same number of queries, in one call.
    void parts(const compiled& kernels) {
        for (std::size_t b = 0, end = 0; b < of_.keys.size(); b = end) {
            while (end < of_.keys.size() && of_.queries[end] == of_.queries[b]) ++end;
            run(kernels, b, end, false);
        }
    }
    std::span<const float> out() { return out_.as<float>(); }

private:
    static std::int64_t pages_of(std::int64_t keys) { return (keys + page_tokens - 1) / page_tokens; }
    std::int64_t all_pages() const {
        std::int64_t all = 0;
        for (const std::int32_t keys : of_.keys) all += pages_of(keys);
        return all;
    }

    void run(const compiled& kernels, std::size_t first, std::size_t last, bool together) {
        const auto count = static_cast<std::int64_t>(last - first), queries = std::int64_t{of_.queries[first]};
        const auto rows = [&](memory& of) {  // token-major, as projections leave them
            float* const from = of.as<float>().data() + starts_[first] * m_.heads * m_.depth;
            if (together) return tensor(from, {1, starts_.back(), m_.heads, m_.depth}).swapped(1, 2);
            return tensor(from, {count, queries, m_.heads, m_.depth}).swapped(1, 2);
        };
        std::vector<attune::detail::named_argument> given;
        const auto give = [&](std::string_view name, const tensor& t) { given.push_back({.name = name, .view = t}); };
        give("q", rows(q_));
        give("block_table",
             tensor(table_.as<std::int32_t>().data() + static_cast<std::int64_t>(first) * blocks_, {count, blocks_}));
        give("k_pages", k_.view());
        give("v_pages", v_.view());
        give("kv_lengths", tensor(of_.keys.data() + first, {count}));
        if (together) give("cu_seqlens_q", tensor(starts_.data(), {count + 1}));
        give("out", rows(out_));
        attune::detail::call(kernels.table, given, {});
    }

    const step& of_;
    machine_shape m_;
    std::int64_t blocks_;
    std::vector<std::int32_t> starts_;
    memory q_, out_, table_, k_, v_;
};

/// Rising from `from` to `to` by equal ratios.
std::vector<std::int32_t> spread(int count, double from, double to) {
    std::vector<std::int32_t> all;
    for (int i = 0; i < count; ++i)
        all.push_back(
            static_cast<std::int32_t>(std::lround(from * std::pow(to / from, i / std::max(1.0, count - 1.0)))));
    return all;
}

std::vector<step> steps() {
    std::vector<step> all;
    step& mixed = all.emplace_back(step{"31 decodes of 128 to 16k keys, a chunk of 512",
                                        std::vector<std::int32_t>(31, 1), spread(31, 128, 16384)});
    mixed.queries.push_back(512), mixed.keys.push_back(4096);
    all.push_back({"64 decodes of at most 256 keys", std::vector<std::int32_t>(64, 1), spread(64, 16, 256)});
    step& drafts =
        all.emplace_back(step{"32 sequences with 1 to 4 drafts, 1k keys", {}, std::vector<std::int32_t>(32, 1024)});
    for (int b = 0; b < 32; ++b) drafts.queries.push_back(1 + b * 7 % 4);
    all.push_back({"8 chunks of 64 to 512, 1k keys", spread(8, 64, 512), std::vector<std::int32_t>(8, 1024)});
    return all;
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

void measure(const compiled& kernels, const step& of, const machine_shape& m, int repeats, bool json) {
    step_call call(of, m);
    std::vector<double> packed, parts, each;
    float difference = 0;
    for (int i = -1; i < repeats; ++i) {
        const double third = seconds_of([&] { call.each(kernels); });
        const std::vector<float> expected(call.out().begin(), call.out().end());
        const double one = seconds_of([&] { call.packed(kernels); });
        for (std::size_t at = 0; at < expected.size(); ++at)
            difference = std::max(difference, std::abs(expected[at] - call.out()[at]));
        const double other = seconds_of([&] { call.parts(kernels); });
        if (i >= 0) packed.push_back(one), parts.push_back(other), each.push_back(third);
    }
    const double ms = median(packed) * 1e3, parts_ms = median(parts) * 1e3, each_ms = median(each) * 1e3;
    if (json)
        fmt::print("{}\n", nlohmann::ordered_json{{"step", of.name},
                                                  {"dtype", attune::name_of(m.type)},
                                                  {"threads", attune::threads()},
                                                  {"ms", ms},
                                                  {"parts_ms", parts_ms},
                                                  {"each_ms", each_ms},
                                                  {"largest_difference", difference}}
                               .dump());
    else
        fmt::print("{:<46} {:>9.3f} {:>9.3f} {:>6.2f} {:>9.3f} {:>6.2f} {:>9.1e}\n", of.name, ms, parts_ms,
                   parts_ms / ms, each_ms, each_ms / ms, difference);
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    machine_shape m;
    std::string dtype = "f32", only;
    int repeats = 15;
    bool json = false;
    CLI::App app{
        "Times steps of continuous batching over pages of 64 tokens in random order: all sequences in one call with "
        "cu_seqlens_q, beside a call for all with the same number of queries, and a call for each."};
    app.add_option("--dtype", dtype, "of the pages: f32 or bf16")
        ->check(CLI::IsMember({"f32", "bf16"}))
        ->capture_default_str();
    app.add_option("--heads", m.heads)->capture_default_str();
    app.add_option("--key-heads", m.key_heads)->capture_default_str();
    app.add_option("--depth", m.depth)->capture_default_str();
    app.add_option("--only", only, "steps whose name contains this");
    app.add_option("--repeats", repeats)->capture_default_str();
    app.add_flag("--json", json, "one object a line");
    CLI11_PARSE(app, argc, argv);
    m.type = dtype == "f32" ? element_type::f32 : element_type::bf16;
    using attune::dsl::ir_of;
    const compiled kernels(
        dtype == "f32" ? ir_of<bench::caches::paged::causal_f32_64> : ir_of<bench::caches::paged::causal_bf16_64>,
        m.depth);
    if (!json)
        fmt::print("{}; heads {} over {}, depth {}, {} threads\n{:<46} {:>9} {:>9} {:>6} {:>9} {:>6} {:>9}\n", dtype,
                   m.heads, m.key_heads, m.depth, attune::threads(), "step", "packed ms", "parts ms", "ratio",
                   "each ms", "ratio", "differ");
    for (const step& each : steps())
        if (each.name.find(only) != std::string::npos) measure(kernels, each, m, repeats, json);
}
