#include "stages/projections.hpp"

#include <attune/ir/at_index.hpp>

#include <algorithm>
#include <string>

namespace attune::generators::inline stages {
using namespace Halide;

computed_tensor::computed_tensor(const kernel_frame& frame, int node)
    : result("computed_" + std::to_string(node)),
      tokens(frame.node(node).op == operation::tokens),
      rows(product_tile_of(frame.request).positions),
      columns(product_tile_of(frame.request).channels),
      f_(frame),
      node_(frame.node(node)),
      of_keys_(node_.op == operation::keys || node_.op == operation::values) {
    width_ = tokens                          ? max(f_.evaluate(node_.arguments[1], {}).value, 0)
             : node_.op == operation::values ? Expr(f_.value_depth())
                                             : Expr(f_.depth());
    const int formula = node_.arguments[0];
    const std::vector<bool> made = under(f_.graph(), {formula}, [this](int n) { return is_made_before(n); });
    const std::vector<matrix_product> found = products_of(f_.graph(), node_at(node));

    // Algorithm
    place here = at(position, f_.d);
    const auto is_summed_here = [&](int s) {
        return made[s] && f_.node(s).op == operation::sum && !f_.depends[s].bound;
    };
    for (const matrix_product& of : found)  // a projection without a bias is the formula itself
        if (is_summed_here(of.sum)) here.known[of.sum] = as_product(of);
    for (int s = 0; s <= formula; ++s)
        if (is_summed_here(s) && !f_.depends[s].channel) here.known[s] = as_number(s, here);
    std::vector<Var> over{f_.d, position, f_.h, f_.b};
    if (tokens) over.erase(over.begin() + 2);
    dense = reads_dense(formula, 1, [this](int n) { return is_made_before(n) || f_.node(n).op == operation::sum; });
    for (int n = 0; n < formula; ++n)
        if (made[n] && reads_along(n))
            read_along.push_back(f_.inputs.tensor(f_.node(f_.node(n).arguments[0]).input).parameter());
    result(over) = f_.evaluate(formula, here).value;
}

/// A sum that is taken once for each position. A sum over the channels of a product, as a norm has, reads the product's
/// result.
quantity computed_tensor::as_number(int s, const place& here) {
    const instruction& it = f_.node(s);
    const int index = static_cast<int>(f_.node(it.arguments[0]).integer);
    place of_position = at(position, 0);
    of_position.known = here.known;
    const RDom channels(0, max(f_.evaluate(it.arguments[1], {}).value, 0), "channels_" + std::to_string(s));
    const std::size_t known = of_position.known.size();
    for (product& made : products)
        for (const int read : reads_of(made, s)) {
            made.is_kept = true;
            of_position.known[read] = {element_of(made, channels), {}};
        }
    Func sum("sum_" + std::to_string(s));
    std::vector<Var> over{position, f_.b};
    if (f_.depends[s].head) over.push_back(f_.h);
    if (of_position.known.size() == known) {
        sum(over) = f_.evaluate(s, of_position).value;
    } else {
        of_position.indices[index] = channels;
        sum(over) = 0.0f;
        sum(over) += f_.evaluate(it.arguments[2], of_position).value;
        of_products.push_back({sum, channels});
    }
    of_positions.push_back(sum);
    return {sum(std::vector<Expr>(over.begin(), over.end())), {}};
}

/// The nodes under a sum over all channels that equal a product at the sum's channel.
std::vector<int> computed_tensor::reads_of(const product& of, int s) const {
    const instruction& it = f_.node(s);
    const auto of_channel = [&](int n) { return f_.depends[n].channel; };
    std::vector<int> all;
    if (!equal(width_, f_.evaluate(it.arguments[1], {}).value)) return all;
    const std::vector<bool> made = under(f_.graph(), {it.arguments[2]}, [this](int n) { return is_made_before(n); });
    for (int n = 0; n < s; ++n)
        if (node_id index = no_node;
            made[n] && f_.node(n).op == operation::sum &&
            detail::is_at_index(f_.graph().nodes, of_channel, node_at(of.node), node_at(n), index) &&
            index == it.arguments[0])
            all.push_back(n);
    return all;
}

Expr computed_tensor::element_of(const product& of, const Expr& channel) const {
    std::vector<Expr> at{channel % columns, position % rows, channel / columns, position / rows, f_.b};
    if (of.left_of_head || of.right_of_head) at.push_back(f_.h);
    return of.sums(at);
}

Expr computed_tensor::position_read(const Expr& at) const {
    return clamp(at, 0, (of_keys_ ? max(f_.inputs.keys_in_use(f_.b), 1) : f_.inputs.query_length) - 1);
}

place computed_tensor::at(const Expr& row, const Expr& channel) const {
    const Expr read = position_read(row);
    return {f_.b, f_.h, read, read, f_.inputs.keys_in_use(f_.b), {}, channel};
}

/// Makes the sum in tiles of positions and channels.
quantity computed_tensor::as_product(const matrix_product& of) {
    const instruction& it = f_.node(of.sum);
    const int index = static_cast<int>(f_.node(it.arguments[0]).integer);
    std::string number("_");
    number += std::to_string(of.sum);
    product made;
    made.node = of.sum;
    made.left_of_head = of.position_of_head, made.right_of_head = of.channel_of_head;
    made.left = Func("left" + number), made.right = Func("right" + number), made.sums = Func("product_sums" + number);

    // Algorithm
    std::vector<Var> of_left{summed, position, f_.b}, of_right{in_panel, summed, panel},
        of_sums{in_panel, in_tile, panel, tile, f_.b};
    if (made.left_of_head) of_left.push_back(f_.h);
    if (made.right_of_head) of_right.push_back(f_.h);
    if (made.left_of_head || made.right_of_head) of_sums.push_back(f_.h);
    place row = at(position, 0), column = at(0, min(panel * columns + in_panel, width_ - 1));
    row.indices[index] = summed;
    column.indices[index] = summed;
    made.left(of_left) = f_.evaluate(of.of_position, row).value;
    made.right(of_right) = f_.evaluate(of.of_channel, column).value;
    made.dense = reads_dense(of.of_position, 2, [this](int n) { return is_made_before(n); });

    made.each = RDom(0, max(f_.evaluate(of.extent, {}).value, 0), "each" + number);
    std::vector<Expr> left{made.each, tile * rows + in_tile, f_.b}, right{in_panel, made.each, panel};
    if (made.left_of_head) left.push_back(f_.h);
    if (made.right_of_head) right.push_back(f_.h);
    made.sums(of_sums) = 0.0f;
    made.sums(of_sums) += made.right(right) * made.left(left);
    products.push_back(made);
    return {element_of(made, f_.d), {}};
}

/// Positions a task. More positions read the other factor less often; if there are few in all, tasks are smaller, so
/// that threads end together.
Expr computed_tensor::block() const {
    const Expr positions = f_.inputs.batches * (of_keys_ ? f_.inputs.key_length : f_.inputs.query_length);
    return rows * clamp(positions / (128 * rows), product_tile::fewest, product_tile::most);
}

/// Whether a node reads an input's element at the position and channel of the result, as a residual connection does.
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

/// Whether the innermost axes of tensors that a formula reads are without gaps; tensors of fewer than `axes` axes do
/// not count.
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

computed_tensors::computed_tensors(kernel_frame& frame, const std::vector<int>& nodes) {
    for (const int n : nodes) {
        all.emplace_back(frame, n);
        frame.inputs.computed[n] = all.back().result;
    }
}

}  // namespace attune::generators::inline stages
