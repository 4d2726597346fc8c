// fuzz_formulas [--minutes N | --cases N] [--seed N] [--target cuda] [--json]: random graphs of the language, some of
// their gradients and shards, or of recurrences, each with a random schedule, level, element types, shape, strides and
// number of threads, compiled in process and compared with the double-precision reference. A case is known by its seed.
// One that fails is made smaller, and written as a header that can be compiled, with the command that runs it again.
#include "forked.hpp"
#include "reductions.hpp"

#include <attune/ir/recurrence.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using clock_type = std::chrono::steady_clock;
using fuzz::outcome_kind;

struct asked {
    double minutes = 0, shrink_minutes = 3;
    unsigned seed = 1, cases = 0;
    int limit = 120;
    std::vector<std::size_t> steps;
    std::string headers = ".", only, target;
    bool json = false, alone = false, mistaken = false, first = false;
};

struct finding {
    fuzz::formula_case at;
    fuzz::outcome found;
    std::vector<std::size_t> steps;
    std::string header;
};

struct tally {
    unsigned cases = 0, agreed = 0;
    double largest = 0;
    unsigned largest_at = 0;
    std::map<std::string, unsigned> kinds, refused;
    std::vector<finding> findings;
};

double minutes_since(clock_type::time_point began) {
    return std::chrono::duration<double>(clock_type::now() - began).count() / 60;
}

/// One line: rewritten on a terminal, now and then elsewhere.
void show_progress(const tally& so_far, unsigned seed, clock_type::time_point began) {
    static clock_type::time_point shown{};
    const bool terminal = isatty(STDERR_FILENO) != 0;
    if (clock_type::now() - shown < (terminal ? std::chrono::seconds(1) : std::chrono::seconds(60))) return;
    shown = clock_type::now();
    fmt::print(stderr, "{}{:.1f} min: {} cases, seed {}; {} agree, {} findings; largest error {:.2f} of the allowed{}",
               terminal ? "\r" : "", minutes_since(began), so_far.cases, seed, so_far.agreed, so_far.findings.size(),
               so_far.largest, terminal ? "\x1b[K" : "\n");
    std::fflush(stderr);
}

std::string joined(const std::vector<std::size_t>& steps) { return fmt::format("{}", fmt::join(steps, ",")); }

std::string again(const finding& f) {
    return fmt::format("fuzz_formulas --seed {} --cases 1{}{}{}", f.at.seed,
                       f.at.on_gpu() ? " --target " + f.at.level : "",
                       has_recurrences(f.at.graph.nodes) ? " --only recurrent" : "",
                       f.steps.empty() ? "" : " --steps " + joined(f.steps));
}

void write_header(finding& f, const asked& how) {
    f.header = (std::filesystem::path(how.headers) / fmt::format("finding_{}.hpp", f.at.seed)).string();
    std::ofstream to(f.header);
    std::string about =
        fmt::format("{}: {}\n{}\nAgain: {}", name_of(f.found.kind), f.found.text, f.at.text(), again(f));
    for (std::size_t at = 0; (at = about.find('\n', at)) != std::string::npos;) about.replace(at, 1, "\n// "), at += 4;
    to << "// " << about << "\n"
       << f.at.graph.header("graph_" + std::to_string(f.at.seed), f.at.kernel_of.text(f.at.graph));
    if (!to) fmt::print(stderr, "expected a folder for headers, got {}; try --headers\n", how.headers);
}

/// Whether one outcome is the other in a smaller case: another refusal is another finding. Numbers may differ.
bool are_alike(const fuzz::outcome& one, const fuzz::outcome& other) {
    const auto words = [](std::string text) {
        std::erase_if(text, [](unsigned char c) { return std::isdigit(c) != 0; });
        return text;
    };
    return one.kind == other.kind && (one.kind != fuzz::outcome_kind::failed || words(one.text) == words(other.text));
}

finding found(const fuzz::formula_case& at, fuzz::outcome what, const asked& how) {
    finding f{at, std::move(what), how.steps, {}};
    const auto began = clock_type::now();
    const auto fails = [&](const fuzz::formula_case& smaller) {
        if (minutes_since(began) > how.shrink_minutes) return false;
        const fuzz::outcome here = fuzz::outcome_of_fork(smaller, how.limit, how.mistaken);
        if (!are_alike(here, f.found)) return false;
        f.found = here;
        return true;
    };
    if (how.shrink_minutes > 0)
        for (const std::size_t step : fuzz::shrink(f.at, fails)) f.steps.push_back(step);
    write_header(f, how);
    fmt::print(stderr, "\n{}: {}\n{}\n{}header: {}\nagain: {}\n", name_of(f.found.kind), f.found.text, f.at.text(),
               f.at.graph.text(), f.header, again(f));
    return f;
}

void print(const tally& all, const asked& how, double minutes) {
    nlohmann::ordered_json findings = nlohmann::ordered_json::array();
    for (const finding& f : all.findings)
        findings.push_back({{"seed", f.at.seed},
                            {"kind", name_of(f.found.kind)},
                            {"what", f.found.text},
                            {"header", f.header},
                            {"again", again(f)}});
    unsigned refused = 0;
    for (const auto& [why, times] : all.refused) refused += times;
    if (how.json) {
        const nlohmann::ordered_json report{{"first_seed", how.seed},       {"cases", all.cases},
                                            {"minutes", minutes},           {"kinds", all.kinds},
                                            {"agreed", all.agreed},         {"refused", all.refused},
                                            {"largest_error", all.largest}, {"largest_error_seed", all.largest_at},
                                            {"findings", findings}};
        fmt::print("{}\n", report.dump(2));
        return;
    }
    fmt::print(
        "{} cases from seed {} in {:.1f} minutes: {} agree, {} refused, {} findings; largest error {:.2f} of "
        "the allowed, of seed {}\n",
        all.cases, how.seed, minutes, all.agreed, refused, all.findings.size(), all.largest, all.largest_at);
    for (const auto& [kind, times] : all.kinds) fmt::print("  {} times of a {}\n", times, kind);
    for (const auto& [why, times] : all.refused) fmt::print("  refused {} times: {}\n", times, why);
}

/// The values of --only: drawing until another kind comes would never end.
constexpr std::string_view kinds[] = {"graph",    "choosing", "storing",      "packed",          "extreme",
                                      "gradient", "shard",    "packed graph", "packed gradient", "recurrent"};

void check_kind(const std::string& only) {
    if (only.empty() || std::ranges::find(kinds, only) != std::end(kinds)) return;
    throw std::invalid_argument(fmt::format("expected a kind among {}, got \"{}\"", fmt::join(kinds, ", "), only));
}

asked parse(int argc, char** argv) {
    asked how;
    CLI::App app{"Random formulas, schedules and calls against the double-precision reference"};
    app.add_option("--minutes", how.minutes, "for how long")->check(CLI::PositiveNumber);
    app.add_option("--cases", how.cases, "how many, where no time is said")->check(CLI::PositiveNumber);
    app.add_option("--seed", how.seed, "of the first case; the others follow")->capture_default_str();
    app.add_option(
        "--only", how.only,
        "cases of these kinds alone, such as choosing, storing, gradient or packed; recurrent, which stand apart");
    app.add_option("--target", how.target,
                   "cuda or opencl: kernels of a GPU, with their default schedules, of the graphs that have any")
        ->check(CLI::IsMember({"cuda", "opencl"}));
    app.add_option("--steps", how.steps, "reductions of the one case, as a finding says them")->delimiter(',');
    app.add_option("--shrink-minutes", how.shrink_minutes, "to make one finding smaller; 0: it stays as it is")
        ->capture_default_str();
    app.add_option("--limit", how.limit, "seconds of work that one case may take")->capture_default_str();
    app.add_option("--headers", how.headers, "the folder for the headers of findings")->check(CLI::ExistingDirectory);
    app.add_flag("--json", how.json, "print what came of it as JSON");
    app.add_flag("--mistaken", how.mistaken,
                 "compile the larger of two numbers for the smaller, to see that it is found");
    app.add_flag("--first", how.first, "end with the first finding");
    app.add_flag("--alone", how.alone, "run one case in this process, for a debugger");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& said) {
        std::exit(app.exit(said));
    }
    check_kind(how.only);
    for (const std::string_view none : {"choosing", "gradient", "shard", "recurrent"})
        if (!how.target.empty() && how.only.find(none) != std::string::npos)
            throw std::invalid_argument(fmt::format("expected a kind that has kernels on a GPU, got \"{}\"", how.only));
    if (how.cases == 0) how.cases = how.minutes > 0 ? ~0u : 20;
    if (!how.steps.empty()) how.cases = 1;
    return how;
}

}  // namespace

int main(int argc, char** argv) try {
    const asked how = parse(argc, argv);
    tally all;
    const auto began = clock_type::now();
    const auto goes_on = [&] {
        return all.cases < how.cases && (how.minutes == 0 || minutes_since(began) < how.minutes) &&
               !(how.first && !all.findings.empty());
    };
    for (unsigned seed = how.seed; goes_on(); ++seed) {
        fuzz::formula_case it = how.only == "recurrent" ? fuzz::drawn_recurrence(seed) : fuzz::drawn_case(seed);
        if (it.kind().find(how.only) == std::string::npos) continue;
        if (!how.target.empty() && !fuzz::move_to(how.target, it)) continue;
        take(it, how.steps);
        const fuzz::outcome got =
            how.alone ? fuzz::outcome_of(it, how.mistaken) : fuzz::outcome_of_fork(it, how.limit, how.mistaken);
        ++all.cases, ++all.kinds[it.kind()];
        if (got.error > all.largest) all.largest = got.error, all.largest_at = seed;
        if (got.kind == outcome_kind::agrees)
            ++all.agreed;
        else if (got.kind == outcome_kind::refused)
            ++all.refused[got.text];
        else
            all.findings.push_back(found(it, got, how));
        show_progress(all, seed, began);
    }
    if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\n");
    print(all, how, minutes_since(began));
    return all.findings.empty() ? 0 : 1;
} catch (const std::exception& problem) {
    fmt::print(stderr, "{}\n", problem.what());
    return 2;
}
