#include "example.hpp"

#include "peak.hpp"

#include <attune/reference.hpp>

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace attune::examples {
namespace {

struct command_line {
    std::string shape, file;
    int repeats = 5;
    bool json = false, no_header = false;
};

/// One line of the table.
struct row {
    std::string variant, data, shape, against, kernel, peak_of, remark;
    double error, tolerance, seconds, gigaflops, peak_share;
    std::int64_t visited, blocks;
    bool right() const { return error <= tolerance; }
};

std::vector<reference::argument> arguments_of(const problem& p) {
    std::vector<reference::argument> list{{"q", p.q}, {"k", p.k}, {"v", p.v}};
    for (const auto& [name, view] : p.inputs()) list.push_back({name, view});
    for (const auto& [name, value] : p.numbers()) list.push_back({name, value});
    return list;
}

/// Every query where there are few, else 16 spread over the length with both ends.
std::vector<std::int64_t> sample(std::int64_t length) {
    std::vector<std::int64_t> rows;
    const std::int64_t count = length <= 128 ? length : 16;
    for (std::int64_t i = 0; i < count; ++i) rows.push_back(count > 1 ? i * (length - 1) / (count - 1) : 0);
    return rows;
}

double error_against_file(const setup& what, const problem& p) {
    double worst = 0;
    int compared = 0;
    for (const auto& output : what.graph.outputs) {
        const auto at = p.expected().find(std::string(output.name));
        if (at == p.expected().end()) continue;
        const tensor& made = p.output(output.name);
        const auto count =
            std::accumulate(made.shape().begin(), made.shape().end(), std::int64_t{1}, std::multiplies<>());
        if (static_cast<std::int64_t>(at->second.size()) != count)
            throw std::runtime_error(fmt::format(
                "expected {} values of {}, got {}; try a file whose outputs have the shape that q and v give", count,
                output.name, at->second.size()));
        ++compared;
        const auto* got = static_cast<const float*>(made.data());
        for (std::size_t i = 0; i < at->second.size(); ++i) {
            const double difference = got[i] == at->second[i] ? 0.0 : std::abs(double(got[i]) - double(at->second[i]));
            worst = difference <= worst ? worst : difference;  // a NaN stays
        }
    }
    if (compared == 0)
        throw std::runtime_error(
            "expected a file with values of out, got none; try one whose outputs this variant makes");
    return worst;
}

double error_against_reference(const setup& what, const problem& p) {
    const auto arguments = arguments_of(p);
    const auto rows = sample(p.query_length);
    const auto expected = reference::evaluate(what.graph, arguments, {.rows = rows});
    double worst = 0;
    for (const auto& array : expected.outputs)
        worst = std::max(worst, reference::largest_error(p.output(array.name), array, rows));
    return worst;
}

/// Pairs that are visible, over all heads: counted on a problem of depth one, for head 0, since no example's mask
/// depends on the head.
double visible_pairs(const setup& what, const problem& p) {
    auto arguments = arguments_of(p);
    const auto counts_once = [](axis_kind axis) {
        return axis == axis_kind::head || axis == axis_kind::key_head || axis == axis_kind::depth ||
               axis == axis_kind::value_depth;
    };
    for (auto& argument : arguments)
        for (const input_declaration& input : what.graph.inputs) {
            if (input.name != argument.name || input.is_scalar) continue;
            const auto& whole = std::get<tensor>(argument.value);
            std::vector<std::int64_t> thin(whole.shape().begin(), whole.shape().end());
            for (std::size_t axis = 0; axis < thin.size(); ++axis)
                if (counts_once(input.axes[axis].kind)) thin[axis] = 1;
            argument.value = tensor(whole.type(), whole.data(), thin, whole.strides());
        }
    const auto seen = reference::evaluate(what.graph, arguments, {.keep_visible = true}).visible;
    return double(std::count(seen.begin(), seen.end(), 1)) * double(p.heads);
}

row measure(const setup& what, problem& p, const std::string& data, const std::function<bound(problem&)>& bind,
            const command_line& line, support::peaks& peaks) {
    p.make_outputs(what.graph);
    const bound call = bind(p);
    call.run();
    row r{};
    r.variant = what.name, r.data = data;
    r.shape = fmt::format("{}x{}x{}x{}x{}", p.batches, p.heads, p.query_length, p.key_length, p.depth);
    const bool has_file = !p.expected().empty();
    r.error = has_file ? error_against_file(what, p) : error_against_reference(what, p);
    r.against = has_file ? "file" : "reference";
    r.tolerance = p.tolerance;
    const explanation e = call.explain();
    const support::instruction& multiplies = support::instruction_of(e.target, e.schedule);
    const auto seconds = support::seconds_beside([&] { peaks.again(multiplies, e.threads); }, call.run, line.repeats);
    r.seconds = *std::min_element(seconds.begin(), seconds.end());
    r.visited = e.blocks_visited, r.blocks = e.blocks, r.kernel = e.target + " " + fmt::format("d{}", p.depth);
    r.gigaflops = 2.0 * visible_pairs(what, p) * double(p.depth + p.value_depth) / r.seconds * 1e-9;
    r.peak_share = peaks.share(r.gigaflops, multiplies, e.threads);
    r.peak_of = multiplies.name, r.remark = support::remark(r.peak_share, multiplies);
    return r;
}

void print(const row& r) {
    fmt::print("{:<20}{:<27}{:<20}{:>9.1e} {:<11}{:>10.3f}{:>10.1f}{:>7.0f} %{:>9}/{:<8}{:<14}{}{}\n", r.variant,
               r.data, r.shape, r.error, r.against, r.seconds * 1e3, r.gigaflops, r.peak_share * 100, r.visited,
               r.blocks, r.kernel, r.right() && r.remark.empty() ? "" : "  ", r.right() ? r.remark : "WRONG");
}

nlohmann::ordered_json json_of(const row& r) {
    return {{"variant", r.variant},       {"data", r.data},
            {"shape", r.shape},           {"error", r.error},
            {"against", r.against},       {"tolerance", r.tolerance},
            {"seconds", r.seconds},       {"useful_gigaflops", r.gigaflops},
            {"peak_share", r.peak_share}, {"peak_of", r.peak_of},
            {"remark", r.remark},         {"blocks_visited", r.visited},
            {"blocks", r.blocks},         {"kernel", r.kernel}};
}

int run_rows(const setup& what, const std::function<bound(problem&)>& bind, const command_line& line) {
    std::vector<row> rows;
    support::peaks peaks;
    const auto random = [&](const std::string& shape) {
        problem p = problem::of_shape(shape);
        if (what.fill) what.fill(p);
        rows.push_back(measure(what, p, "random", bind, line, peaks));
    };
    std::string file = line.file;
    if (file.empty() && line.shape.empty() && !what.golden.empty())
        file = std::string(ATTUNE_GOLDEN_FILES "/") + what.golden + ".safetensors";
    if (!file.empty()) {
        problem p = problem::of_file(file);
        rows.push_back(measure(what, p, std::filesystem::path(file).stem().string(), bind, line, peaks));
    }
    if (!line.shape.empty())
        random(line.shape);
    else if (line.file.empty())
        random("1x8x1024x1024x64");

    if (line.json) {
        auto list = nlohmann::ordered_json::array();
        for (const row& r : rows) list.push_back(json_of(r));
        fmt::print("{}\n", list.dump(1));
    } else {
        if (!line.no_header)
            fmt::print("{:<20}{:<27}{:<20}{:>9} {:<11}{:>10}{:>10}{:>9}{:>9}/{:<8}{}\n", "variant", "data",
                       "BxHxLqxLkxD", "error", "against", "ms", "GFLOP/s", "peak", "blocks", "all", "kernel");
        for (const row& r : rows) print(r);
    }
    return std::all_of(rows.begin(), rows.end(), [](const row& r) { return r.right(); }) ? 0 : 1;
}

}  // namespace

int run_example(int argc, char** argv, const setup& what, const std::function<bound(problem&)>& bind) {
    CLI::App app{"The attune example '" + what.name +
                 "': checks its kernel and times it.\n"
                 "Columns: largest error against the file or the double-precision reference, best time of a call, "
                 "useful GFLOP/s (visible pairs only),\n"
                 "their share of the peak of what the kernel multiplies with, measured beside the calls, key blocks "
                 "visited of all,\n"
                 "the kernel chosen, and what else there is to say."};
    command_line line;
    app.add_option("--shape", line.shape, "random data of this shape, BxHxLqxLkxD");
    app.add_option("--file", line.file, "read tensors and parameters from this .safetensors file");
    app.add_option("--repeats", line.repeats, "calls to time; the best counts")->check(CLI::Range(1, 1000000));
    app.add_flag("--json", line.json, "print rows as JSON");
    app.add_flag("--no-header", line.no_header, "print rows without the table's head");
    CLI11_PARSE(app, argc, argv);
    try {
        return run_rows(what, bind, line);
    } catch (const std::exception& e) {
        fmt::print(stderr, "{}: {}\n", what.name, e.what());
        return 2;
    }
}

}  // namespace attune::examples
