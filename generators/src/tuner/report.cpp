#include "tuner/report.hpp"

#include "base/formatting.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <stdexcept>

namespace attune::generators::inline tuner {
namespace {

std::string escaped(const std::string& text) {
    std::string result;
    for (const char c : text)
        result += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
    return result;
}

std::string label(double x, double y, const std::string& text, const char* anchor = "start", int size = 12,
                  const char* colour = "#333") {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\" text-anchor=\"{}\">{}</text>\n", x,
                       y, size, colour, anchor, escaped(text));
}

/// From the fastest, dark green, over the default's time, pale, to twice that, dark red.
std::string colour_of(double ratio, double best) {
    const auto mix = [](double part, int from, int to) {
        return static_cast<int>(std::lround(from + (to - from) * part));
    };
    if (ratio <= 1) {
        const double part = best < 1 ? (1 - ratio) / (1 - best) : 0;
        return fmt::format("rgb({},{},{})", mix(part, 240, 20), mix(part, 240, 120), mix(part, 225, 60));
    }
    const double part = std::min(1.0, ratio - 1);
    return fmt::format("rgb({},{},{})", mix(part, 240, 165), mix(part, 240, 30), mix(part, 225, 40));
}

struct frame {
    double left, top, width, height;
};

/// Time against candidates, in the order of trying: a point each, a line for the best so far.
std::string drawn_order(const tune_result& r, const std::vector<std::pair<schedule, double>>& scores, const frame& at) {
    double least = 1, most = 1.5;
    for (const auto& [s, score] : scores) least = std::min(least, score), most = std::max(most, score);
    least -= 0.05, most = std::min(most + 0.05, 2.5);
    const double steps = static_cast<double>(std::max<std::size_t>(1, r.record.tried.size()));
    const auto x = [&](double i) { return at.left + at.width * i / steps; };
    const auto y = [&](double ratio) { return at.top + at.height * (most - std::min(ratio, most)) / (most - least); };
    std::string svg =
        fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#bbb\"/>\n", at.left,
                    at.top, at.width, at.height);
    const double grid = most - least > 1 ? 0.25 : 0.1;
    for (double line = std::ceil(least / grid) * grid; line <= most; line += grid) {
        svg += fmt::format("<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#eee\"/>\n", at.left,
                           at.left + at.width, y(line));
        svg += label(at.left - 6, y(line) + 4, fmt::format("{:.2f}", line), "end", 11);
    }
    svg += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#888\" stroke-dasharray=\"5 3\"/>\n",
        at.left, at.left + at.width, y(1));
    std::string points, path;
    double best = 1;
    std::size_t timed = 0;
    for (std::size_t i = 0; i < r.record.tried.size(); ++i) {
        const double middle = x(static_cast<double>(i) + 0.5);
        if (!r.record.tried[i].wrong.empty() || r.record.tried[i].rounds.empty()) {
            points += label(middle, at.top + 12, "\u00d7", "middle", 14, "#c00");
            continue;
        }
        const double score = scores.at(timed++).second;
        best = std::min(best, score);
        path += fmt::format("{}{:.1f},{:.1f} {:.1f},{:.1f}", path.empty() ? "" : " ", x(static_cast<double>(i)),
                            y(best), x(static_cast<double>(i + 1)), y(best));
        points += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.4\" fill=\"{}\" fill-opacity=\"0.75\"/>\n",
                              middle, y(score), score < 1 ? "#1a7f4b" : "#7a7a7a");
    }
    svg +=
        points + fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"#0b5394\" stroke-width=\"1.5\"/>\n", path);
    svg += label(at.left, at.top - 8, "time over the default's, one comparison each; line: the best so far");
    svg +=
        label(at.left + at.width / 2, at.top + at.height + 18,
              fmt::format("candidates in the order of trying: {} of {}", r.record.tried.size(), r.space - 1), "middle");
    return svg;
}

/// The best time of each pair of register tile and block of keys.
std::string drawn_tiles(const tune_result& r, const std::vector<std::pair<schedule, double>>& scores, const frame& at) {
    const auto row_of = [](const schedule& s) {
        const block_sizes tile = tile_of(s);
        return std::pair(tile.query_block, tile.key_block);
    };
    std::map<std::pair<int, int>, std::map<int, double>> cells;
    std::map<int, int> columns;
    double best = 1;
    const auto put = [&](const schedule& s, double score) {
        const int nominal = static_cast<int>(std::lround(std::exp2(std::round(std::log2(blocks_of(s).key_block)))));
        double& cell = cells[row_of(s)].try_emplace(nominal, score).first->second;
        cell = std::min(cell, score), columns[nominal] = 0, best = std::min(best, score);
    };
    put(r.of.kernel.request.schedule, 1);
    for (const auto& [s, score] : scores) put(s, score);
    int place = 0;
    for (auto& [nominal, column] : columns) column = place++;
    const double width = at.width / static_cast<double>(columns.size()),
                 height = std::min(26.0, at.height / static_cast<double>(cells.size()));
    std::string svg = label(at.left - 70, at.top - 26,
                            is_for_recurrence(r.of.kernel.request.schedule)
                                ? "best of each tile (rows x columns in registers) and tokens a chunk"
                                : "best of each tile (queries x keys in registers) and keys a block");
    for (const auto& [nominal, column] : columns)
        svg += label(at.left + width * (column + 0.5), at.top - 6, std::to_string(nominal), "middle", 11);
    int row = 0;
    for (const auto& [tile, scores_of] : cells) {
        const double top = at.top + height * row++;
        svg += label(at.left - 6, top + height / 2 + 4, fmt::format("{} x {}", tile.first, tile.second), "end", 11);
        for (const auto& [nominal, score] : scores_of) {
            svg += fmt::format(
                "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" stroke=\"{}\" "
                "stroke-width=\"{}\"/>\n",
                at.left + width * columns[nominal] + 1, top + 1, width - 2, height - 2, colour_of(score, best),
                score == best ? "#0b5394" : "white", score == best ? 2 : 0);
            const bool dark = score > 1.55 || (best < 1 && (1 - score) / (1 - best) > 0.6);
            svg += label(at.left + width * (columns[nominal] + 0.5), top + height / 2 + 4, fmt::format("{:.2f}", score),
                         "middle", 11, dark ? "white" : "#333");
        }
    }
    return svg;
}

}  // namespace

std::string drawn(const tune_result& r) {
    const std::vector<std::pair<schedule, double>> scores = scores_of(r);
    const search_choice& c = r.choice;
    std::string svg = label(20, 26, r.search, "start", 16, "#000");
    svg += label(20, 46,
                 fmt::format("default {:.3f} ms, tuned {:.3f} ms: {:+.1f} % speed, {:.1f} % noise; threads: {}{}",
                             1e3 * c.default_seconds, 1e3 * c.seconds, 100 * (1 / c.over_default.ratio - 1),
                             100 * c.over_default.noise(), r.record.begin.at("threads").get<int>(),
                             r.is_modelled()
                                 ? fmt::format("; estimates and times correlate by {:.2f} (ranks)", r.rank_correlation)
                                 : ""));
    svg += label(20, 64, to_json(c.schedule), "start", 11, "#555");
    svg += drawn_order(r, scores, {60, 100, 520, 290});
    svg += drawn_tiles(r, scores, {680, 116, 290, 274});
    return svg;
}

void write_report(const std::filesystem::path& file, const std::vector<tune_result>& all) {
    const bool page = file.extension() == ".html";
    if (!page && file.extension() != ".svg")
        throw std::runtime_error("expected a report's name to end in .html or .svg, got \"" + file.string() + "\"");
    std::string text;
    const auto svg = [](int height, const std::string& inside) {
        return fmt::format(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
            "font-family=\"sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{2}</svg>\n",
            drawn_width, height, inside);
    };
    if (page) {
        text =
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>attune: schedules "
            "tried</title>\n<style>body{font-family:sans-serif;margin:2em}table{border-collapse:collapse}"
            "td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid "
            "#ddd}td:first-child,th:first-child{text-align:left}</style></head><body>\n<h1>Schedules tried</h1>\n"
            "<table><tr><th>kernel</th><th>default</th><th>tuned</th><th>gain</th><th>noise</th><th>tried</th></tr>\n";
        for (const tune_result& r : all)
            text += fmt::format(
                "<tr><td>{}</td><td>{:.3f} ms</td><td>{:.3f} ms</td><td>{:+.1f} %</td><td>{:.1f} %</td><td>{} of "
                "{}</td></tr>\n",
                escaped(r.search), 1e3 * r.choice.default_seconds, 1e3 * r.choice.seconds,
                100 * (1 / r.choice.over_default.ratio - 1), 100 * r.choice.over_default.noise(), r.record.tried.size(),
                r.space - 1);
        text += "</table>\n";
        for (const tune_result& r : all) text += svg(drawn_height, drawn(r));
        text += "</body></html>\n";
    } else {
        std::string groups;
        for (std::size_t i = 0; i < all.size(); ++i)
            groups += fmt::format("<g transform=\"translate(0 {})\">\n{}</g>\n", drawn_height * i, drawn(all[i]));
        text = svg(static_cast<int>(drawn_height * all.size()), groups);
    }
    std::ofstream out(file);
    out << text;
    if (!out.flush()) throw std::runtime_error("expected a file that can be written, got \"" + file.string() + "\"");
}

}  // namespace attune::generators::inline tuner
