#include "cpu/recurrence_gradient.hpp"

#include "analysis/plan.hpp"
#include "expr/math.hpp"

#include <attune/ir/gradient_outputs.hpp>

#include <algorithm>
#include <bit>
#include <numeric>

/// Deposits of a recurrence's gradient: the cotangents of tensors, added up where the forward pass read them.
namespace attune::generators::inline cpu {
using namespace Halide;

std::vector<int> recurrence_gradient::part_nodes() const {
    std::vector<int> all;
    for (std::size_t n = 0; n < request_.graph().nodes.size(); ++n)
        if (request_.graph().nodes[n].op == operation::part_cotangent) all.push_back(static_cast<int>(n));
    return all;
}

void recurrence_gradient::define_outputs() {
    const graph_ir& graph = request_.graph();
    for (const output_declaration& output : graph.outputs) {
        const int input = input_of_gradient(graph, output);
        const input_declaration& to = graph.inputs[static_cast<std::size_t>(input)];
        std::vector<Var> all;
        for (int axis = 0; axis < to.rank; ++axis) all.emplace_back("axis_" + std::to_string(axis));
        // Algorithm
        Func gradient("gradient_" + std::string(output.name));
        gradient(all) = 0.0f;
        const axis_kind channels = to.rank == 0 ? axis_kind::free : to.axes[to.rank - 1].kind;
        stages_.push_back({gradient, 0, all, channels == axis_kind::depth || channels == axis_kind::value_depth});
        const auto bound_channels = [&](Func written) {
            for (int axis = 0; axis < to.rank; ++axis) {
                const axis_kind along = to.axes[to.rank - 1 - axis].kind;
                written.output_buffer().dim(axis).set_min(0);
                if (along == axis_kind::depth) written.output_buffer().dim(axis).set_bounds(0, size_.depth);
                if (along == axis_kind::value_depth) written.output_buffer().dim(axis).set_bounds(0, size_.value_depth);
            }
        };
        add_deposits(gradient, output.node);
        const Type type = to.element == element_type::any ? inputs_.tensor(input).type() : Float(32);
        if (type == Float(32)) {
            bound_channels(gradient), outputs.push_back(gradient);
            continue;
        }
        gradient.compute_root();
        Func rounded("rounded_" + std::string(output.name));
        rounded(all) = stored_as(type, gradient(all));
        bound_channels(rounded), outputs.push_back(rounded);
    }
}

void recurrence_gradient::add_deposits(Func& gradient, int n) {
    if (node(n).op == operation::deposit) return add_deposit(gradient, n);
    add_deposits(gradient, node(n).arguments[0]), add_deposits(gradient, node(n).arguments[1]);
}

/// A number of each token: part of a value, added up over a channel.
Func recurrence_gradient::added_first(int value, int part, const counted_index& over) {
    Func& sum = added_[part];
    if (sum.defined()) return sum;
    const RDom each(0, max(evaluate(over.extent, {}).value, 0), "each");
    place where = at(x_.t, x_.h, x_.b);
    know_numbers(where, {value}, part_nodes());
    where.indices[static_cast<int>(node(over.index).integer)] = each.x;
    know_parts(where);
    // Algorithm
    sum = Func("sum");
    sum(x_.t, x_.h, x_.b) = 0.0f;
    const quantity x = evaluate(part, where);
    sum(x_.t, x_.h, x_.b) += x.masked.defined() ? select(x.masked, 0.0f, x.value) : x.value;
    of_tokens_.push_back(sum);
    return sum;
}

/// An index that places nothing, of a part in which the value is linear, is taken out of `over`: the part is added up
/// before.
recurrence_gradient::added_part recurrence_gradient::part_added_first(const instruction& deposit, int value,
                                                                      std::vector<counted_index>& over) const {
    if (over.size() < 2) return {};
    const graph_ir& graph = request_.graph();
    const std::vector<dependence>& depends = request_.facts->depends;
    std::uint64_t placing = 0;
    for (std::size_t a = 1; a < deposit.argument_count; ++a) placing |= depends[deposit.arguments[a]].bound;
    const std::vector<bool> holds = holding(graph, part_nodes());
    for (std::size_t i = 0; i < over.size(); ++i) {
        const std::uint64_t own = std::uint64_t{1} << node(over[i].index).integer;
        if ((placing & own) != 0) continue;
        const int part = linear_part(graph, depends, value, own, holds);
        if (part < 0 || part == value || (beside(graph, depends, value, part, holds).bound & own) != 0) continue;
        const counted_index taken = over[i];
        over.erase(over.begin() + static_cast<std::ptrdiff_t>(i));
        return {part, taken};
    }
    return {};
}

/// Axes at a bare index are loops over the tensor's own elements; all else is a sum, whose terms find their places.
void recurrence_gradient::add_deposit(Func& gradient, int n) {
    const graph_ir& graph = request_.graph();
    const instruction& deposit = node(n);
    const input_declaration& to = graph.inputs[static_cast<std::size_t>(deposit.input)];
    const std::vector<Var> axes = gradient.args();  // innermost first
    const bool of_states = deposit.integer == 2;
    int value = deposit.arguments[0];
    std::vector<counted_index> over;
    for (; node(value).op == operation::each; value = node(value).arguments[2])
        over.push_back({node(value).arguments[0], node(value).arguments[1]});
    const auto index_of = [&](const counted_index& each) { return static_cast<int>(node(each.index).integer); };

    const added_part before = of_states ? added_part{} : part_added_first(deposit, value, over);
    const int first = before.part;

    place where{.b = {}, .h = {}, .q = of_states ? Expr(0) : Expr(), .k = 0, .key_limit = 0};
    std::vector<Expr> places(axes.size());
    Expr key_head;
    stage made{gradient};
    for (std::size_t a = 0; a < axes.size(); ++a) {
        const std::size_t axis = axes.size() - 1 - a;
        const instruction& index = node(deposit.arguments[axis + 1]);
        const axis_kind along = to.axes[axis].kind;
        const auto take = [&](Expr& number) {
            if (!number.defined()) number = places[a] = axes[a], made.along.push_back(axes[a]);
        };
        if (index.op == operation::b && along == axis_kind::batch) take(where.b);
        if (index.op == operation::q_idx && along == axis_kind::query) take(where.q);
        if (index.op == operation::h && along == axis_kind::head && !key_head.defined()) take(where.h);
        if (index.op == operation::h && along == axis_kind::key_head && !where.h.defined()) take(key_head);
        if (index.op != operation::bound) continue;
        for (const counted_index& each : over) {
            const operation extent = node(each.extent).op;
            if (each.index != deposit.arguments[axis + 1] ||
                !((along == axis_kind::depth && extent == operation::depth) ||
                  (along == axis_kind::value_depth && extent == operation::value_depth)))
                continue;
            take(where.indices[index_of(each)]);
            made.by_channels = made.by_channels || a == 0;
        }
    }
    left_loops left;
    std::map<int, int> left_indices;
    int left_q = -1, left_h = -1, left_b = -1;
    for (std::size_t i = over.size(); i-- > 0;)
        if (!where.indices[index_of(over[i])].defined())
            left_indices[index_of(over[i])] = left.add(max(evaluate(over[i].extent, {}).value, 0));
    const Expr group = max(inputs_.heads / max(inputs_.key_heads, 1), 1);
    if (!where.q.defined()) left_q = left.add(tokens());
    if (!where.h.defined()) left_h = left.add(key_head.defined() ? group : Expr(inputs_.heads));
    if (!where.b.defined()) left_b = left.add(max(inputs_.batches, 0));
    RDom each;
    if (!left.ranges.empty()) each = RDom(left.ranges, "each_place");
    for (const auto& [index, loop] : left_indices) where.indices[index] = each[loop];
    if (left_q >= 0) where.q = each[left_q];
    if (left_h >= 0) where.h = key_head.defined() ? key_head * group + each[left_h] : Expr(each[left_h]);
    if (left_b >= 0) where.b = each[left_b];

    know_parts(where);
    std::vector<int> known = part_nodes();
    if (first >= 0) {
        where.known[first] = {added_first(value, first, before.over)(where.q, where.h, where.b), {}};
        known.push_back(first);
    }
    if (!of_states) know_numbers(where, {value}, known);
    for (std::size_t a = 0; a < axes.size(); ++a) {
        if (places[a].defined()) continue;
        const std::size_t axis = axes.size() - 1 - a;
        const int index = deposit.arguments[axis + 1];
        const Expr extent = inputs_.tensor(deposit.input).dim(static_cast<int>(a)).extent();
        places[a] = to.axes[axis].kind == axis_kind::key_head && node(index).op == operation::h
                        ? inputs_.key_head(where.h)
                        : clamp(evaluate(index, where).value, 0, extent - 1);
    }
    const quantity x = evaluate(value, where);
    // Algorithm
    gradient(places) += x.masked.defined() ? select(x.masked, 0.0f, x.value) : x.value;
    made.update = gradient.num_update_definitions();
    stages_.push_back(made);
}

}  // namespace attune::generators::inline cpu
