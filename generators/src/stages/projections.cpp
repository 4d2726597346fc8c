#include "stages/projections.hpp"

#include <algorithm>
#include <string>

namespace attune::generators {
using namespace Halide;

computed_tensor::computed_tensor(const kernel_frame& frame, int node)
    : result("computed_" + std::to_string(node)),
      f_(frame),
      node_(frame.node(node)),
      tokens_(node_.op == operation::tokens),
      of_keys_(node_.op == operation::keys || node_.op == operation::values),
      rows_(product_tile_of(frame.request).positions),
      columns_(product_tile_of(frame.request).channels) {
    width_ = tokens_                         ? max(f_.evaluate(node_.arguments[1], {}).value, 0)
             : node_.op == operation::values ? Expr(f_.value_depth())
                                             : Expr(f_.depth());
    const int formula = node_.arguments[0];
    const std::vector<bool> made = under(f_.graph(), {formula}, [this](int n) { return is_made_before(n); });
    const std::vector<matrix_product> products = products_of(f_.graph(), node);

    // Algorithm
    place here = at(p_, f_.d);
    for (int s = 0; s <= formula; ++s) {  // a projection without a bias is the formula itself
        const instruction& it = f_.node(s);
        if (!made[s] || it.op != operation::sum || f_.depends[s].bound) continue;
        if (!f_.depends[s].channel) {
            place of_position = at(p_, 0);
            of_position.known = here.known;
            Func sum("sum_" + std::to_string(s));
            std::vector<Var> over{p_, f_.b};
            if (f_.depends[s].head) over.push_back(f_.h);
            sum(over) = f_.evaluate(s, of_position).value;
            here.known[s] = {sum(std::vector<Expr>(over.begin(), over.end())), {}};
            of_positions_.push_back(sum);
        } else if (const auto of = std::ranges::find(products, s, &matrix_product::sum); of != products.end()) {
            here.known[s] = as_product(*of);
        }
    }
    std::vector<Var> over{f_.d, p_, f_.h, f_.b};
    if (tokens_) over.erase(over.begin() + 2);
    dense_ = reads_dense(formula, 1, [this](int n) { return is_made_before(n) || f_.node(n).op == operation::sum; });
    for (int n = 0; n < formula; ++n)
        if (made[n] && reads_along(n))
            read_along_.push_back(f_.inputs.tensor(f_.node(f_.node(n).arguments[0]).input).parameter());
    result(over) = f_.evaluate(formula, here).value;
}

Expr computed_tensor::position_read(const Expr& position) const {
    return clamp(position, 0, (of_keys_ ? max(f_.inputs.keys_in_use(f_.b), 1) : f_.inputs.query_length) - 1);
}

place computed_tensor::at(const Expr& position, const Expr& channel) const {
    const Expr read = position_read(position);
    return {f_.b, f_.h, read, read, f_.inputs.keys_in_use(f_.b), {}, channel};
}

/// The sum in tiles of positions and channels.
quantity computed_tensor::as_product(const matrix_product& of) {
    const instruction& it = f_.node(of.sum);
    const int index = static_cast<int>(f_.node(it.arguments[0]).integer);
    std::string number("_");
    number += std::to_string(of.sum);
    product made;
    made.left_of_head = of.position_of_head, made.right_of_head = of.channel_of_head;
    made.left = Func("left" + number), made.right = Func("right" + number), made.sums = Func("product" + number);

    // Algorithm
    std::vector<Var> of_left{n_, p_, f_.b}, of_right{ci_, n_, co_}, of_sums{ci_, pi_, co_, po_, f_.b};
    if (made.left_of_head) of_left.push_back(f_.h);
    if (made.right_of_head) of_right.push_back(f_.h);
    if (made.left_of_head || made.right_of_head) of_sums.push_back(f_.h);
    place row = at(p_, 0), column = at(0, min(co_ * columns_ + ci_, width_ - 1));
    row.indices[index] = n_;
    column.indices[index] = n_;
    made.left(of_left) = f_.evaluate(of.of_position, row).value;
    made.right(of_right) = f_.evaluate(of.of_channel, column).value;
    made.dense = reads_dense(of.of_position, 2, [this](int n) { return is_made_before(n); });

    made.each = RDom(0, max(f_.evaluate(of.extent, {}).value, 0), "each" + number);
    std::vector<Expr> left{made.each, po_ * rows_ + pi_, f_.b}, right{ci_, made.each, co_};
    if (made.left_of_head) left.push_back(f_.h);
    if (made.right_of_head) right.push_back(f_.h);
    made.sums(of_sums) = 0.0f;
    made.sums(of_sums) += made.right(right) * made.left(left);
    std::vector<Expr> here{f_.d % columns_, p_ % rows_, f_.d / columns_, p_ / rows_, f_.b};
    if (made.left_of_head || made.right_of_head) here.push_back(f_.h);
    products_.push_back(made);
    return {made.sums(here), {}};
}

void computed_tensor::schedule() {
    // Schedule
    const TailStrategy guard = TailStrategy::GuardWithIf;
    const int lanes = f_.lanes();
    const Var &d = f_.d, &h = f_.h, &b = f_.b, c("c"), pt("pt"), px("px"), task("task");
    result.compute_root();
    if (tokens_) {  // may be an output of the kernel
        for (int dim = 0; dim < 3; ++dim) result.output_buffer().dim(dim).set_min(0);
        result.output_buffer().dim(0).set_stride(1);
    }
    result.split(p_, po_, p_, block(), guard).split(d, d, c, columns_, guard).split(p_, pt, px, rows_, guard);
    if (tokens_)
        result.reorder(c, px, pt, d, po_, b);
    else
        result.reorder(c, px, pt, d, h, po_, b);
    result.vectorize(c, lanes, guard).fuse(po_, b, task).parallel(task);
    // Asked for before the sums that they are added to, which take longer than memory does.
    for (const Parameter& each : read_along_) result.prefetch(each, pt, pt, 0, PrefetchBoundStrategy::GuardWithIf);
    if (!is_const_one(dense_)) result.specialize(dense_);  // vectors are loaded there, not gathered
    for (Func& sum : of_positions_) sum.compute_at(result, task).vectorize(p_, lanes, TailStrategy::RoundUp);
    for (product& each : products_) {
        each.right.compute_root().bound_extent(ci_, columns_).vectorize(ci_, lanes).unroll(ci_).parallel(co_);
        each.left.compute_at(result, each.left_of_head && !tokens_ ? h : task);
        each.left.specialize(each.dense).vectorize(n_, lanes, guard);
        each.sums.compute_at(result, pt)
            .bound_extent(ci_, columns_)
            .bound_extent(pi_, rows_)
            .bound_extent(co_, 1)
            .bound_extent(po_, 1);
        each.sums.vectorize(ci_, lanes).unroll(ci_).unroll(pi_);
        each.sums.update().reorder(ci_, pi_, each.each.x).vectorize(ci_, lanes).unroll(ci_).unroll(pi_);
    }
}

/// Positions a task: fewer where there are few, so that threads end together; more read the other factor less often.
Expr computed_tensor::block() const {
    const Expr positions = f_.inputs.batches * (of_keys_ ? f_.inputs.key_length : f_.inputs.query_length);
    return rows_ * clamp(positions / (128 * rows_), product_tile::fewest, product_tile::most);
}

/// Whether a node reads an input's element at the position and channel that are made, as a residual connection does.
bool computed_tensor::reads_along(int n) const {
    const instruction& it = f_.node(n);
    if (it.op != operation::load || f_.node(it.arguments[0]).op != operation::input) return false;
    bool positions = false, channels = false;
    for (int i = 1; i < it.argument_count; ++i) {
        const operation index = f_.node(it.arguments[i]).op;
        const bool of_position = index == operation::q_idx || index == operation::kv_idx,
                   of_channel = index == operation::d_idx;
        if (!of_position && !of_channel && index != operation::b && index != operation::h) return false;
        positions |= of_position, channels |= of_channel;
    }
    return positions && channels;
}

bool computed_tensor::is_made_before(int n) const {
    return f_.node(n).op == operation::tokens || f_.node(n).kind == kind::output;
}

/// Whether the innermost axes of what a formula reads, of tensors of so many axes at least, are without gaps.
Expr computed_tensor::reads_dense(int formula, int axes, const std::function<bool(int)>& ends) const {
    const std::vector<bool> read = under(f_.graph(), {formula}, ends);
    Expr dense = Internal::const_true();
    for (int n = 0; n < formula; ++n)
        if (const instruction& it = f_.node(n); read[n] && it.op == operation::input &&
                                                f_.inputs.tensor(it.input).defined() &&
                                                f_.inputs.tensor(it.input).dimensions() >= axes)
            dense = dense && f_.inputs.tensor(it.input).dim(0).stride() == 1;
    return dense;
}

computed_tensors::computed_tensors(kernel_frame& frame, bool before) {
    const graph_ir& graph = frame.graph();
    std::vector<bool> after(graph.nodes.size());
    for (std::size_t n = 0; n < after.size(); ++n) {
        const instruction& it = graph.nodes[n];
        after[n] = it.kind == kind::output;
        for (int i = 0; i < it.argument_count; ++i) after[n] = after[n] || after[it.arguments[i]];
    }
    for (const int n : computed_in_full(graph)) {
        if (after[n] == before) continue;
        all_.emplace_back(frame, n);
        frame.inputs.computed[n] = all_.back().result;
    }
}

}  // namespace attune::generators
