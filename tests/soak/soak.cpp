// Calls of mixed variants and shapes from several threads for a long time, and what becomes of memory:
//   build/default/bin/attune_soak --seconds 3600 --csv soak.csv --svg soak.svg
// It prints a line of time, calls and resident memory at every hundredth of that, and fails where a result changes or
// memory grows after the first quarter. Of the process, not of the machine: /proc/self/statm.
#include "calls.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using clock = std::chrono::steady_clock;

struct sample {
    double seconds;
    std::int64_t calls;
    double megabytes;
};

double resident_megabytes() {
    std::ifstream file("/proc/self/statm");
    long size = 0, pages = 0;
    file >> size >> pages;
    return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) * 1e-6;
}

/// Of the samples from one share of the time to another.
double median(const std::vector<sample>& all, double from, double to) {
    std::vector<double> values;
    for (std::size_t i = 0; i < all.size(); ++i)
        if (const double at = static_cast<double>(i + 1) / static_cast<double>(all.size()); at > from && at <= to)
            values.push_back(all[i].megabytes);
    std::ranges::sort(values);
    return values[values.size() / 2];
}

void write_csv(const std::vector<sample>& all, const std::string& file) {
    std::ofstream out(file);
    out << "seconds,calls,resident_megabytes\n";
    for (const sample& s : all) out << fmt::format("{:.1f},{},{:.2f}\n", s.seconds, s.calls, s.megabytes);
}

void write_svg(const std::vector<sample>& all, const std::string& file) {
    const double most = std::ranges::max(all, {}, &sample::megabytes).megabytes * 1.25, end = all.back().seconds;
    const auto x = [&](double seconds) { return 60 + 560 * seconds / end; };
    const auto y = [&](double megabytes) { return 250 - 220 * megabytes / most; };
    std::string points, marks;
    for (const sample& s : all) points += fmt::format("{:.1f},{:.1f} ", x(s.seconds), y(s.megabytes));
    for (int i = 0; i <= 4; ++i) {
        marks +=
            fmt::format("<text x='{:.0f}' y='270' text-anchor='middle'>{:.0f} s</text>", x(end * i / 4), end * i / 4);
        marks += fmt::format(
            "<path d='M60 {0:.1f}H620' stroke='#ddd'/><text x='54' y='{1:.1f}' text-anchor='end'>{2:.0f} MB</text>",
            y(most * i / 4), y(most * i / 4) + 4, most * i / 4);
    }
    std::ofstream(file) << fmt::format(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 640 300' font-family='sans-serif' font-size='12'>\n<rect "
        "width='640' height='300' fill='white'/>\n{}\n"
        "<polyline points='{}' fill='none' stroke='#2060a0' stroke-width='1.5'/>\n<text x='60' y='20'>Resident memory "
        "over {} calls of mixed variants and shapes</text>\n"
        "</svg>\n",
        marks, points, all.back().calls);
}

}  // namespace

int main(int argc, char** argv) {
    double seconds = 20;
    unsigned threads = 2, seed = 1;
    std::string csv, svg;
    CLI::App app{"Calls of mixed variants and shapes for a long time, and what becomes of memory"};
    app.add_option("--seconds", seconds, "for how long")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--threads", threads, "callers at a time")->capture_default_str();
    app.add_option("--seed", seed, "of what is drawn")->capture_default_str();
    app.add_option("--csv", csv, "write the curve of memory into this file");
    app.add_option("--svg", svg, "draw it into this file");
    CLI11_PARSE(app, argc, argv);

    std::atomic<bool> over{false};
    std::vector<std::jthread> workers;
    for (unsigned worker = 0; worker < threads; ++worker)
        workers.emplace_back([&over, worker, seed] {
            std::mt19937 random(seed * 1000 + worker);
            try {
                while (!over) soak::call_once(random);
            } catch (const std::exception& e) {
                soak::failed(e.what());
            }
        });
    const auto start = clock::now();
    std::vector<sample> curve;
    for (int mark = 1; mark <= 100 && soak::problem().empty(); ++mark) {
        std::this_thread::sleep_until(
            start + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds * mark / 100)));
        curve.push_back(
            {std::chrono::duration<double>(clock::now() - start).count(), soak::calls_made(), resident_megabytes()});
        fmt::print("{:8.1f} s {:10} calls {:8.1f} MB\n", curve.back().seconds, curve.back().calls,
                   curve.back().megabytes);
        std::fflush(stdout);
    }
    over = true;
    workers.clear();
    if (const std::string what = soak::problem(); !what.empty()) return fmt::print("FAILED  {}\n", what), 1;
    if (!csv.empty()) write_csv(curve, csv);
    if (!svg.empty()) write_svg(curve, svg);
    const double early = median(curve, 0.25, 0.5), late = median(curve, 0.75, 1),
                 most = std::ranges::max(curve, {}, &sample::megabytes).megabytes;
    fmt::print(
        "{} calls, the same results throughout; resident {:.1f} MB in the second quarter, {:.1f} MB in the last, "
        "{:.1f} MB at most\n",
        soak::calls_made(), early, late, most);
    if (late > early * 1.03 + 32)
        return fmt::print("FAILED  expected memory that stays as it is after the first quarter\n"), 1;
    return 0;
}
