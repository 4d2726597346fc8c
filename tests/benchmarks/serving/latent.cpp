// Decode over latents: one row a token, which is the key of all query heads, and in its first channels their value.
// Timed beside plain reading of the rows and beside the peak of multiply-adds.
//
//     attune_latent --heads 16 128 --keys 8192 [--dtypes f32 bf16] [--schedule '{"value_tile": 8}'] [--json]
#include "caches.hpp"
#include "memory.hpp"
#include "peak.hpp"

#include "commands/schedule_option.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/runtime.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <functional>

namespace {

using attune::element_type;
using bench::memory;

double seconds_of(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> of) {
    std::sort(of.begin(), of.end());
    return of[of.size() / 2];
}

struct question {
    std::int64_t sequences = 1, keys = 8192, depth = 576, value_depth = 512;
    std::vector<std::int64_t> heads{16, 128}, queries{1};
    std::vector<std::string> dtypes{"f32", "bf16"};
    std::string cut;
    int repeats = 15;
    bool json = false;
};

void measure(const question& asked, const std::string& dtype, const std::string& level) {
    const bool narrow = dtype == "bf16";
    const attune::generators::variant of{"bench::latents", narrow ? attune::dsl::ir_of<bench::caches::latents_bf16>
                                                                  : attune::dsl::ir_of<bench::caches::latents_f32>};
    auto list =
        attune::generators::kernels_of({&of, 1}, {.targets = {level},
                                                  .dtypes = {"f32"},
                                                  .depths = {fmt::format("{}x{}", asked.depth, asked.value_depth)},
                                                  .shapes = {"decode"}});
    list[0].request.schedule = attune::generators::schedule_with(list[0].request, asked.cut);
    const attune::generators::jit_kernel kernel(list[0]);
    const std::string schedule = attune::generators::to_json(list[0].request.schedule);
    const attune::support::instruction& multiplies = attune::support::instruction_of(level, schedule);
    const int threads = attune::threads();
    attune::support::peaks peaks;
    memory latent(narrow ? element_type::bf16 : element_type::f32, {asked.sequences, asked.keys, asked.depth});
    const std::vector<std::span<const std::byte>> read{latent.bytes()};
    for (const std::int64_t heads : asked.heads)
        for (const std::int64_t queries : asked.queries) {
            memory q(element_type::f32, {asked.sequences, heads, queries, asked.depth}),
                out(element_type::f32, {asked.sequences, heads, queries, asked.value_depth});
            const std::vector<attune::detail::named_argument> given{{.name = "q", .view = q.view()},
                                                                    {.name = "latent", .view = latent.view()},
                                                                    {.name = "out", .view = out.view()}};
            std::vector<double> ours, reading;
            for (int i = -1; i < asked.repeats; ++i) {
                peaks.again(multiplies, threads);
                const double once = seconds_of([&] { attune::detail::call(kernel.table(), given, {}); }),
                             plain = bench::seconds_to_read(read, threads);
                if (i >= 0) ours.push_back(once), reading.push_back(plain);
            }
            const double seconds = median(ours),
                         flops = 2.0 * double(asked.sequences * heads * queries * asked.keys *
                                              (asked.depth + asked.value_depth)),
                         gigaflops = flops / seconds * 1e-9, share = peaks.share(gigaflops, multiplies, threads),
                         of_read = median(reading) / seconds;
            if (asked.json)
                fmt::print("{}\n", nlohmann::ordered_json{{"dtype", dtype},
                                                          {"level", level},
                                                          {"threads", threads},
                                                          {"sequences", asked.sequences},
                                                          {"heads", heads},
                                                          {"queries", queries},
                                                          {"keys", asked.keys},
                                                          {"ms", seconds * 1e3},
                                                          {"gigaflops", gigaflops},
                                                          {"of_peak", share},
                                                          {"of_reading", of_read}}
                                       .dump());
            else
                fmt::print("{:<6} {:>10} {:>6} {:>8} {:>7} {:>9.3f} {:>8.0f} {:>7.0f}% {:>7.0f}%  {}\n", dtype,
                           asked.sequences, heads, queries, asked.keys, seconds * 1e3, gigaflops, 100 * share,
                           100 * of_read, attune::support::remark(share, multiplies));
            std::fflush(stdout);
        }
}

}  // namespace

int main(int argc, char** argv) {
    question asked;
    CLI::App app{
        "Times decode over a cache of latents, beside plain reading of it and beside the peak of multiply-adds."};
    app.add_option("--sequences", asked.sequences)->capture_default_str();
    app.add_option("--keys", asked.keys, "of each sequence")->capture_default_str();
    app.add_option("--heads", asked.heads, "of queries")->capture_default_str();
    app.add_option("--queries", asked.queries, "of each sequence")->capture_default_str();
    app.add_option("--depth", asked.depth, "of a row")->capture_default_str();
    app.add_option("--value-depth", asked.value_depth, "the channels that are the value")->capture_default_str();
    app.add_option("--dtypes", asked.dtypes, "of the cache: f32, bf16")->check(CLI::IsMember({"f32", "bf16"}));
    app.add_option("--schedule", asked.cut, "another schedule: a JSON object with some of its fields");
    app.add_option("--repeats", asked.repeats)->capture_default_str();
    app.add_flag("--json", asked.json, "one object a line");
    CLI11_PARSE(app, argc, argv);
    std::string level;
    for (const attune::generators::level& each : attune::generators::levels())
        if (level.empty() && attune::runs(each.name)) level = each.name;
    if (!asked.json)
        fmt::print("{}; rows of {}, values of {}\n{:<6} {:>10} {:>6} {:>8} {:>7} {:>9} {:>8} {:>8} {:>8}\n", level,
                   asked.depth, asked.value_depth, "dtype", "sequences", "heads", "queries", "keys", "ms", "GFLOP/s",
                   "of peak", "of read");
    for (const std::string& dtype : asked.dtypes) measure(asked, dtype, level);
}
