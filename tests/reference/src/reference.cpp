#include "evaluation.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace attune::reference {
namespace {

/// Nodes whose scores a softmax or log-sum-exp sees.
std::vector<std::int16_t> normalised_scores(const listing& graph) {
    std::vector<std::int16_t> nodes;
    for (const instruction& n : graph.nodes)
        if (n.op == operation::softmax || n.op == operation::log_sum_exp)
            if (std::ranges::find(nodes, n.arguments[0]) == nodes.end()) nodes.push_back(n.arguments[0]);
    return nodes;
}

std::int64_t product(std::span<const std::int64_t> extents) {
    return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

const array& results::operator[](std::string_view name) const {
    std::string known;
    for (const array& a : outputs) {
        if (a.name == name) return a;
        known += (known.empty() ? "" : ", ") + a.name;
    }
    throw std::out_of_range("reference: no output `" + std::string(name) + "`, only " + known);
}

results evaluate(const listing& graph, std::span<const argument> arguments, const options& how) {
    evaluation e(graph, arguments);
    results r;
    r.rows = how.rows;
    if (r.rows.empty()) {
        r.rows.resize(static_cast<std::size_t>(e.size.queries));
        std::iota(r.rows.begin(), r.rows.end(), 0);
    }
    for (std::int64_t row : r.rows)
        if (row < 0 || row >= e.size.queries) throw std::invalid_argument("reference: query " + std::to_string(row) + " of " + std::to_string(e.size.queries));

    const auto count = static_cast<std::int64_t>(r.rows.size());
    for (const output_declaration& o : graph.outputs) {
        array a{std::string(o.name), {e.size.batches, e.size.heads, count}, {}};
        const kind is = graph.nodes[static_cast<std::size_t>(o.node)].is;
        if (is == kind::output) a.shape.push_back(e.size.value_depth);
        else if (is != kind::row) a.shape.push_back(e.size.keys);
        a.values.assign(static_cast<std::size_t>(product(a.shape)), 0.0);
        r.outputs.push_back(std::move(a));
    }
    const auto seen = how.keep_visible ? normalised_scores(graph) : std::vector<std::int16_t>{};
    if (how.keep_visible) r.visible.assign(static_cast<std::size_t>(e.size.batches * e.size.heads * count * e.size.keys), 0);

    std::int64_t at = 0;  // position of (b, h, row)
    for (std::int64_t b = 0; b < e.size.batches; ++b)
        for (std::int64_t h = 0; h < e.size.heads; ++h)
            for (std::int64_t row : r.rows) {
                e.evaluate_row(b, h, row);
                for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
                    const std::vector<double>& from = e.value(graph.outputs[i].node).real;
                    const std::int64_t width = r.outputs[i].shape.size() == 3 ? 1 : r.outputs[i].shape[3];
                    std::ranges::copy(from, r.outputs[i].values.begin() + at * width);
                }
                for (std::int16_t scores : seen) {
                    const std::vector<double>& s = e.value(scores).real;
                    for (std::size_t key = 0; key < s.size(); ++key)
                        if (s[key] != -std::numeric_limits<double>::infinity())
                            r.visible[static_cast<std::size_t>(at * e.size.keys) + key] = 1;
                }
                ++at;
            }
    return r;
}

double largest_error(const tensor& got, const array& expected, std::span<const std::int64_t> rows) {
    const view g(got);
    const std::vector<std::int64_t>& shape = expected.shape;
    const bool same = g.extents.size() == shape.size() && g.extents[0] == shape[0] && g.extents[1] == shape[1] &&
                      (shape.size() == 3 || g.extents[3] == shape[3]) && shape[2] == static_cast<std::int64_t>(rows.size()) &&
                      std::ranges::all_of(rows, [&g](std::int64_t row) { return row >= 0 && row < g.extents[2]; });
    if (!same) throw std::invalid_argument("reference: `" + expected.name + "` has another shape than the reference");
    double worst = 0;
    std::size_t at = 0;
    for (std::int64_t b = 0; b < shape[0]; ++b)
        for (std::int64_t h = 0; h < shape[1]; ++h)
            for (std::int64_t row : rows) {
                const std::int64_t width = shape.size() == 3 ? 1 : shape[3];
                for (std::int64_t d = 0; d < width; ++d, ++at) {
                    const std::array<std::int64_t, 4> index{b, h, row, d};
                    const double x = g.at({index.data(), shape.size()}), y = expected.values[at];
                    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
                    const double error = std::abs(x - y);
                    worst = std::max(worst, std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
                }
            }
    return worst;
}

}  // namespace attune::reference
