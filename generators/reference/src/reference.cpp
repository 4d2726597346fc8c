#include "evaluation.hpp"
#include "gradients.hpp"
#include "packed.hpp"
#include "statistics.hpp"
#include "stores.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <tuple>

namespace attune::reference {
namespace {

/// Nodes whose scores a softmax or another statistic sees.
std::vector<node_id> normalised_scores(const graph_ir& graph) {
    std::vector<node_id> nodes;
    for (const instruction& n : graph.nodes)
        if (n.op == operation::softmax || n.op == operation::log_sum_exp || n.op == operation::unnormalized ||
            n.op == operation::row_maximum)
            if (std::ranges::find(nodes, n.arguments[0]) == nodes.end()) nodes.push_back(n.arguments[0]);
    return nodes;
}

std::int64_t product(std::span<const std::int64_t> extents) {
    return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

const array& results::operator[](std::string_view name) const {
    std::string known;
    for (const std::vector<array>* list : {&outputs, &stored})
        for (const array& a : *list) {
            if (a.name == name) return a;
            known += (known.empty() ? "" : ", ") + a.name;
        }
    throw std::out_of_range("reference: no output `" + std::string(name) + "`, only " + known);
}

namespace {

/// Collects the values of one named output as rows are evaluated, one (b, h, q) after the other.
class output_writer {
public:
    output_writer(const graph_ir& graph, const output_declaration& declared, evaluation& e, std::int64_t rows)
        : node_(declared.node),
          is_(graph.nodes[node_].kind),
          size_(e.size()),
          rows_(rows),
          to_{std::string(declared.name), {}, {}} {
        if (is_ == kind::column || is_ == kind::head_mean) node_ = graph.nodes[node_].arguments[0];  // the weights
        const bool of_own_length = graph.nodes[node_].argument_count == 3;
        whole_ = is_ == kind::precomputed || is_ == kind::states || is_ == kind::last_state ||
                 (is_ == kind::tokens && of_own_length);
        if (whole_) {
            std::tie(to_.shape, to_.values) = is_ == kind::precomputed ? e.precomputed_whole(node_)
                                              : is_ == kind::tokens    ? e.tokens_whole(node_)
                                                                       : e.states_whole(node_);
            to_.query_axis = -1;
            return;
        }
        if (is_ == kind::tokens) width_ = e.width_of(node_);
        const std::vector<axis_kind> axes = axes_of(is_);
        to_.query_axis = -1;
        for (std::size_t a = 0; a < axes.size(); ++a) {
            if (axes[a] == axis_kind::query) to_.query_axis = static_cast<int>(a);
            to_.shape.push_back(extent(axes[a]));
        }
        const bool is_scores = is_ == kind::scores;
        to_.values.assign(static_cast<std::size_t>(product(to_.shape)), is_scores ? masked : 0.0);
    }

    bool sums_over_queries() const { return is_ == kind::column; }

    /// The values of row number `row` of those chosen, which is query q.
    void write(evaluation& e, std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t q) {
        if (whole_ || (is_ == kind::tokens && h > 0)) return;
        const std::int64_t bh = b * size_.heads + h;
        const std::int64_t at = is_ == kind::column                             ? bh
                                : is_ == kind::head_mean || is_ == kind::tokens ? b * rows_ + row
                                                                                : bh * rows_ + row;
        const std::int64_t width = is_ == kind::row ? 1 : to_.shape.back(),
                           used = is_ == kind::row || is_ == kind::output || is_ == kind::tokens ? width
                                                                                                 : e.keys_in_use(b);
        const auto from = is_ == kind::tokens ? e.tokens(node_, b, q) : e.value(node_);
        double* to = to_.values.data() + at * width;
        for (std::int64_t i = 0; i < used; ++i) {
            const double x = from->real[from->real.size() == 1 ? 0 : static_cast<std::size_t>(i)];
            if (is_ == kind::weights)
                to[i] = weight_of(x);
            else if (is_ == kind::column)
                to[i] += weight_of(x);
            else if (is_ == kind::head_mean)
                to[i] += weight_of(x) / static_cast<double>(size_.heads);
            else
                to[i] = x;
        }
    }

    array take() { return std::move(to_); }

private:
    std::int64_t extent(axis_kind axis) const {
        switch (axis) {
            case axis_kind::batch: return size_.batches;
            case axis_kind::head: return size_.heads;
            case axis_kind::query: return rows_;
            case axis_kind::key: return size_.keys;
            case axis_kind::free: return width_;
            default: return size_.value_depth;
        }
    }

    node_id node_;
    kind is_;
    bool whole_ = false;  ///< made before any row
    sizes size_;
    std::int64_t rows_, width_ = 0;  // width: of tokens
    array to_;
};

}  // namespace

double results::largest_error(std::string_view name, const tensor& got) const {
    return reference::largest_error(got, (*this)[name], rows);
}

results evaluate(const graph_ir& graph, std::span<const argument> given, const options& how) {
    if (const tensor* const starts = packed_by(graph, given)) return evaluate_packed(graph, given, *starts, how);
    const stored_copies copies(graph, given, how);
    const std::span<const argument> arguments = copies.arguments();
    evaluation e(graph, arguments, how);
    const sizes size = e.size();
    std::vector<std::int64_t> all(static_cast<std::size_t>(size.queries));
    std::iota(all.begin(), all.end(), 0);
    results r;
    r.rows = how.rows.empty() ? all : how.rows;
    for (std::int64_t row : r.rows)
        if (row < 0 || row >= size.queries)
            throw std::invalid_argument("reference: query " + std::to_string(row) + " of " +
                                        std::to_string(size.queries));

    const auto count = static_cast<std::int64_t>(r.rows.size());
    std::vector<output_writer> by_row, by_column;
    std::vector<gradient_writer> gradients;
    std::vector<bool> is_column;
    for (const output_declaration& o : graph.outputs) {
        if (graph.nodes[o.node].kind == kind::gradient) {  // alone in their graphs
            gradients.emplace_back(graph, o, e);
            continue;
        }
        output_writer w(graph, o, e, count);
        is_column.push_back(w.sums_over_queries());
        (w.sums_over_queries() ? by_column : by_row).push_back(std::move(w));
    }
    const auto seen = how.keep_visible ? normalised_scores(graph) : std::vector<node_id>{};
    if (how.keep_visible) r.visible.assign(static_cast<std::size_t>(size.batches * size.heads * count * size.keys), 0);

    for (std::int64_t b = 0; b < size.batches; ++b)
        for (std::int64_t h = 0; h < size.heads; ++h) {
            for (std::int64_t i = 0; i < count; ++i) {
                const std::int64_t q = r.rows[static_cast<std::size_t>(i)];
                for (output_writer& w : by_row) e.go_to(b, h, q), w.write(e, b, h, i, q);
                e.go_to(b, h, q);
                for (node_id scores : seen) {
                    const auto s = e.value(scores);
                    const std::size_t at = static_cast<std::size_t>((b * size.heads + h) * count + i) *
                                           static_cast<std::size_t>(size.keys);
                    for (std::size_t key = 0; key < s->real.size(); ++key)
                        if (s->real[key] != masked) r.visible[at + key] = 1;
                }
            }
            for (std::int64_t q : all) {
                if (by_column.empty() && gradients.empty()) break;
                e.go_to(b, h, q);
                for (gradient_writer& w : gradients) w.add(e);
                for (output_writer& w : by_column) w.write(e, b, h, q, q);
            }
            if (all.empty()) e.go_to(b, h, 0);
            for (gradient_writer& w : gradients)
                if (all.empty()) w.add_to_first_states(e);
        }
    auto row = by_row.begin(), column = by_column.begin();
    for (gradient_writer& w : gradients) r.outputs.push_back(w.take());
    for (bool c : is_column) r.outputs.push_back((c ? column++ : row++)->take());
    r.stored = copies.contents();
    return r;
}

double largest_error(const tensor& got, const array& expected, std::span<const std::int64_t> rows) {
    const view g(got);
    const std::vector<std::int64_t>& shape = expected.shape;
    bool same = g.extents.size() == shape.size();
    for (std::size_t a = 0; same && a < shape.size(); ++a) {
        const std::int64_t extent = g.extents[a];
        if (static_cast<int>(a) != expected.query_axis)
            same = extent == shape[a];
        else
            same = shape[a] == static_cast<std::int64_t>(rows.size()) &&
                   std::ranges::all_of(rows, [extent](std::int64_t row) { return row >= 0 && row < extent; });
    }
    if (!same) throw std::invalid_argument("reference: `" + expected.name + "` has another shape than the reference");
    double worst = 0;
    std::vector<std::int64_t> index(shape.size());
    for (std::size_t at = 0; at < expected.values.size(); ++at) {
        auto rest = static_cast<std::int64_t>(at);
        for (std::size_t a = shape.size(); a-- > 0; rest /= shape[a]) {
            const std::int64_t i = rest % shape[a];
            index[a] = static_cast<int>(a) == expected.query_axis ? rows[static_cast<std::size_t>(i)] : i;
        }
        const double x = g.at(index), y = expected.values[at];
        if (x == y || (std::isnan(x) && std::isnan(y))) continue;
        const double error = std::abs(x - y);
        worst = std::max(worst, std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
    }
    return worst;
}

}  // namespace attune::reference
