#include "stages/precomputed.hpp"

#include <algorithm>

namespace attune::generators::inline stages {
using namespace Halide;

namespace {

const char *const unmade_sum = "unmade_sum", *const is_masked = "unmade_sum_is_masked";

/// Whether all elements of the tile of an element are hidden, whatever their sums are.
Expr all_hidden(const Expr& hidden, const std::vector<Var>& axes, const tile_of_sums& tile) {
    Internal::Scope<Internal::Interval> of_tile;
    const auto add = [&](const Var& axis, int size) {
        const Expr first = axis / size * size;
        of_tile.push(axis.name(), Internal::Interval(first, first + size - 1));
    };
    add(axes[0], tile.columns), add(axes[1], tile.rows);
    of_tile.push(is_masked, Internal::Interval(Internal::const_false(), Internal::const_true()));
    return Internal::simplify(Internal::and_condition_over_domain(hidden, of_tile));
}

}  // namespace

/// Whether a formula is -infinity, by what is known before its sums are made; undefined if it never is.
Expr precomputed_tensor::hidden_without_sums(int formula, place here, const std::vector<bool>& read) const {
    for (int n = 0; n <= formula; ++n)
        if (const instruction& it = f_.node(n);
            read[n] && it.kind == kind::real && (it.op == operation::sum || it.op == operation::largest))
            here.known[n] = {Internal::Variable::make(Float(32), unmade_sum),
                             Internal::Variable::make(Bool(), is_masked)};
    const Expr hidden = f_.evaluate(formula, here).masked;
    return hidden.defined() && !Internal::expr_uses_var(hidden, unmade_sum) ? hidden : Expr();
}

/// A sum all of whose elements lie at the last index or at the one before it, some at each, as in q(b, h, i, c) *
/// means(b, h, n, c). The factor at the last index is turned, so that its elements lie beside each other: a tile of
/// sums takes a vector of it and one number of each row. Undefined for other sums.
quantity precomputed_tensor::product_of_rows(int sum, const std::vector<int>& loads, const place& here,
                                             const rows_and_columns& its) {
    const instruction& it = f_.node(sum);
    if (it.op != operation::sum) return {};
    const auto& [axes, last, before, hidden] = its;
    const int summed = index_of(it.arguments[0]);
    const auto lies_at = [&](int load, int index) { return (f_.depends[load].bound >> index & 1) != 0; };
    bool rows = false, columns = false;
    for (const int load : loads) {
        if (lies_at(load, last) && lies_at(load, before)) return {};
        rows |= lies_at(load, before), columns |= lies_at(load, last);
    }
    if (!rows || !columns) return {};
    const Var c("c"), in_tile("in_tile");
    const tile_of_sums tile(*f_.request.target);
    // Algorithm
    product of;
    of.axes = axes, of.node = sum;
    of.summed = RDom(0, number(it.arguments[1]), "summed");
    if (hidden.defined()) of.summed.where(!all_hidden(hidden, axes, tile));
    place within = here;
    for (const int load : loads) {
        if (!lies_at(load, last)) continue;
        place there = here;
        there.indices[summed] = c, there.extents[summed] = it.arguments[1];
        const quantity x = factor(load, there);
        if (x.masked.defined()) return {};
        std::vector<Var> of_last{in_tile, c, axes[0]};
        of_last.insert(of_last.end(), axes.begin() + 2, axes.end());
        std::vector<Expr> at(of_last.begin(), of_last.end());
        at[0] = axes[0] % tile.columns, at[1] = of.summed.x, at[2] = axes[0] / tile.columns;
        Func turned("turned");
        turned(of_last) = Internal::graph_substitute(axes[0].name(), axes[0] * tile.columns + in_tile, x.value);
        of.turned.push_back(turned);
        within.known[load] = {turned(at), {}};
    }
    within.indices[summed] = of.summed.x, within.extents[summed] = it.arguments[1];
    for (const int load : loads)
        if (lies_at(load, before)) within.known[load] = factor(load, within);
    const quantity x = f_.evaluate(it.arguments[2], within);
    if (x.masked.defined()) return {};
    of.tile = Func("tile_of_products"), of.sum = Func("product_sum");
    of.tile(axes) = 0.0f;
    of.tile(axes) += x.value;
    of.sum(axes) = of.tile(std::vector<Expr>(axes.begin(), axes.end()));
    products.push_back(of);
    return {of.sum(std::vector<Expr>(axes.begin(), axes.end())), {}};
}

/// A load under a sum. An input's element that only multiplies masks nothing: -infinity is a number there.
quantity precomputed_tensor::factor(int load, const place& at) const {
    const graph_ir& graph = f_.graph();
    const instruction& from = f_.node(f_.node(load).arguments[0]);
    const bool multiplies = std::ranges::all_of(graph.nodes, [&](const instruction& user) {
        const auto end = user.arguments.begin() + user.argument_count;
        return user.op == operation::multiply || std::find(user.arguments.begin(), end, load) == end;
    });
    if (from.op != operation::input || !multiplies) return f_.evaluate(load, at);
    const Expr element = f_.inputs.tensor(from.input)(pointwise(f_.request, f_.inputs, at).place_of(load));
    return element.type().is_float() ? quantity{cast<float>(element), {}} : f_.evaluate(load, at);
}

/// A sum within a sum over another index, as in sum(j, heads, w(b, i, j) * max(sum(c, depth, q(b, j, i, c) * k(b, n,
/// c)), 0)): products of rows at the tensor's last index and columns at the outer sum's. Undefined for other sums.
quantity precomputed_tensor::products_within_sum(int sum, const std::vector<int>& loads, place here,
                                                 const instruction& made, const std::vector<bool>& read,
                                                 const Expr& hidden) {
    const std::uint64_t bound = f_.depends[sum].bound;
    for (int outer = sum + 1; outer < static_cast<int>(read.size()); ++outer) {
        const instruction& it = f_.node(outer);
        if (!read[outer] || it.op != operation::sum || !(bound >> index_of(it.arguments[0]) & 1)) continue;
        const int index = index_of(it.arguments[0]);
        std::vector<Var> columns{Var("column")};
        here.indices[index] = columns[0], here.extents[index] = it.arguments[1];
        if (!is_within(sum, here) || !is_within(outer, here)) return {};
        columns.insert(columns.end(), axes.begin(), axes.end());
        const quantity of = product_of_rows(
            sum, loads, here, {columns, index, index_of(made.arguments[made.argument_count - 2]), hidden});
        if (of.value.defined()) products.back().outer = outer;
        return of;
    }
    return {};
}

}  // namespace attune::generators::inline stages
