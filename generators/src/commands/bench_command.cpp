#include "commands/bench_command.hpp"

#include "base/about.hpp"
#include "base/formatting.hpp"
#include "commands/schedule_option.hpp"
#include "commands/variant_named.hpp"
#include "inspect/explain_cost.hpp"
#include "schedules/schedule_source.hpp"
#include "tuner/jit_kernel.hpp"
#include "tuner/recurrent_calls.hpp"
#include "tuner/trials.hpp"

#include <attune/runtime.hpp>
#include <attune/workload.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>

namespace attune::generators::inline commands {
namespace {

constexpr int fewest_calls = 5;

/// Sorted seconds of calls, at least `fewest_calls`, until `budget` seconds are over; the first call is not counted.
std::vector<double> seconds_of(const kernel_table& table, std::span<const detail::named_argument> arguments,
                               const options& how, double budget) {
    using clock = std::chrono::steady_clock;
    detail::call(table, arguments, how);
    std::vector<double> seconds;
    const auto start = clock::now();
    for (auto now = start; static_cast<int>(seconds.size()) < fewest_calls ||
                           std::chrono::duration<double>(now - start).count() < budget;) {
        detail::call(table, arguments, how);
        const auto end = clock::now();
        seconds.push_back(std::chrono::duration<double>(end - now).count());
        now = end;
    }
    std::ranges::sort(seconds);
    return seconds;
}

support::workload workload_of(const listed_kernel& kernel, const support::shape& shape,
                              const std::map<std::string, double>& numbers) {
    const graph_ir& graph = kernel.of->graph;
    std::map<std::string, std::int64_t> lengths;
    for (const auto& [name, number] : numbers) lengths[name] = static_cast<std::int64_t>(number);
    for (const input_declaration& input : graph.inputs)
        if (input.is_scalar && input.name != "scale" && !numbers.contains(std::string(input.name)))
            throw std::runtime_error(
                fmt::format("expected a number for `{0}`, which {1} reads, got none; try --set {0}=...", input.name,
                            kernel.of->name));
    support::workload call(graph, shape, 1, numbers, lengths);
    keep_states_finite(call, graph);
    convert(call, kernel.request);
    return call;
}

}  // namespace

void bench_command::add_to(CLI::App& command) {
    command.add_option("--dtypes", what_.dtypes, "element types: f32, or q:f32,k:bf16,v:bf16")->capture_default_str();
    command.add_option("--depths", what_.depths, "depths of q and k, or depth x depth of v: 64, 64x32")
        ->capture_default_str();
    command.add_option("--targets", what_.targets, "ISA levels; those that this machine does not run are left out")
        ->capture_default_str();
    add_schedules_to(command, what_);
    command.add_option("--variant", variant_, "one variant, by its name or the last part of it; else all");
    command
        .add_option("--shape", shape_,
                    "sizes of the call, batch x heads x queries x keys; 1x8:2x1024x1024 has 2 key heads")
        ->capture_default_str();
    command.add_option("--set", set_, "numbers that a variant is passed, and lengths of axes of its own: w=64");
    command.add_option("--schedule", schedule_, "another schedule: a JSON object with some of its fields");
    command.add_option("--seconds", seconds_, "time for each kernel's calls, of which there are five at least")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    command.add_option("--threads", threads_, "threads of a call; else ATTUNE_THREADS or the machine's")
        ->check(CLI::PositiveNumber);
    command.add_flag("--json", json_, "as JSON");
}

std::map<std::string, double> bench_command::numbers() const {
    std::map<std::string, double> all;
    for (const std::string& text : set_) {
        const auto equals = text.find('=');
        char* end = nullptr;
        const double number = equals == text.npos ? 0 : std::strtod(text.c_str() + equals + 1, &end);
        if (end == nullptr || end == text.c_str() + equals + 1 || *end != 0)
            throw std::runtime_error("expected --set as name=number, got \"" + text + "\"");
        all[text.substr(0, equals)] = number;
    }
    return all;
}

void bench_command::run(std::span<const variant> variants) const {
    const call_sizes sizes = call_sizes_from(shape_);
    if (!variant_.empty()) variants = {&variant_named(variants, variant_), 1};
    auto kernels = scheduled_kernels(variants, what_);
    std::erase_if(kernels, [](const listed_kernel& k) { return !runs(k.request.target->name); });
    std::erase_if(kernels, [&](const listed_kernel& k) {
        return sizes.queries < k.from_queries || sizes.queries > k.to_queries;
    });
    if (kernels.empty())
        throw std::runtime_error(
            "expected a kernel for this shape at an ISA level that this machine runs, got none; try --targets "
            "x86-64-v3");
    use_schedule(kernels, schedule_);
    options how;
    how.threads = threads_;
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    if (!json_)
        fmt::print("{} of {} threads, {} kernels\n{:>12} {:>12} {:>9}  kernel\n", shape_,
                   threads_ > 0 ? threads_ : threads(), kernels.size(), "median ms", "fastest ms", "GFLOP/s");
    for (const listed_kernel& k : kernels) {
        const auto compiled = about(k.of->name, [&] { return std::make_unique<jit_kernel>(k); });
        const auto& [depth, value_depth] = k.request.depths;
        const auto whole = [](double x) { return static_cast<std::int64_t>(x); };
        const support::shape shape{.batches = whole(sizes.batches),
                                   .heads = whole(sizes.heads),
                                   .key_heads = whole(sizes.key_heads),
                                   .queries = whole(sizes.queries),
                                   .keys = whole(sizes.keys),
                                   .depth = depth,
                                   .value_depth = value_depth};
        const support::workload call = workload_of(k, shape, numbers());
        const auto arguments = arguments_in_place(call, k.of->graph);
        const std::vector<double> seconds = seconds_of(compiled->table(), arguments, how, seconds_);
        const double median = seconds[seconds.size() / 2],
                     flops = flops_of(*k.request.facts, k.request.depths, sizes).value;
        if (json_)
            rows.push_back({{"kernel", k.symbol},
                            {"variant", k.of->name},
                            {"target", k.request.target->name},
                            {"shape", shape_},
                            {"calls", seconds.size()},
                            {"median_s", median},
                            {"fastest_s", seconds.front()},
                            {"flops_of_all_pairs", flops},
                            {"schedule", nlohmann::ordered_json::parse(to_json(k.request.schedule))}});
        else
            fmt::print("{:12.3f} {:12.3f} {:9.1f}  {}\n", median * 1e3, seconds.front() * 1e3, flops / median * 1e-9,
                       k.symbol),
                std::fflush(stdout);
    }
    if (json_)
        fmt::print("{}\n", rows.dump(2));
    else
        fmt::print("GFLOP/s count every pair, those that a mask hides too\n");
}

}  // namespace attune::generators::inline commands
