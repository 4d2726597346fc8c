#include "stages/precomputed.hpp"

#include "expr/math.hpp"

#include <algorithm>
#include <string>

namespace attune::generators {
using namespace Halide;

namespace {

constexpr int bits_of_digit = 4, digits_of_number = 32 / bits_of_digit;

int formula_of(const graph_ir& graph, int tensor) {
    const instruction& node = graph.nodes[tensor];
    return chooses(node.op) ? formula_of(graph, node.arguments[0]) : node.arguments[0];
}

}  // namespace

precomputed_tensor::precomputed_tensor(const kernel_frame& frame, int node)
    : width(lanes_of(frame.request.schedule)), f_(frame) {
    const instruction& made = f_.node(attune::chooses(f_.node(node).op) ? f_.node(node).arguments[0] : node);
    for (int a = 1; a < made.argument_count; a += 2) axes.insert(axes.begin(), Var("index_" + std::to_string(a / 2)));
    axes.insert(axes.end(), {f_.h, f_.b});
    if (attune::chooses(f_.node(node).op))
        define_choice(node);
    else
        define_reals(node);
}

Expr precomputed_tensor::number(int node) const { return max(f_.evaluate(node, {}).value, 0); }

void precomputed_tensor::define_reals(int node) {
    const graph_ir& graph = f_.graph();
    const instruction& made = f_.node(node);
    const int indices = made.argument_count / 2;
    // Algorithm
    place here{f_.b, f_.h, 0, 0, f_.inputs.keys_in_use(f_.b)};
    if (!f_.request.facts->of_query_heads[node]) here.h = clamp(f_.h * f_.group(), 0, f_.inputs.heads - 1);
    for (int i = 0; i < indices; ++i) {
        const int index = static_cast<int>(f_.node(made.arguments[1 + 2 * i]).integer);
        here.indices[index] = axes[indices - 1 - i], here.extents[index] = made.arguments[2 + 2 * i];
    }
    along = RDom(0, number(made.arguments[made.argument_count - 1]), "along");
    const std::vector<bool> read = under(graph, {formula_of(graph, node)},
                                         [&](int n) { return n < node && graph.nodes[n].kind == kind::precomputed; });
    for (int n = 0; n < node; ++n) {
        if (!read[n] || !is_read_along(n)) continue;
        const Func sum = sum_of_vectors(n, here);
        if (sum.defined()) here.known[n] = {sum(std::vector<Expr>(axes.begin(), axes.end())), {}};
    }
    const quantity x = f_.evaluate(made.arguments[0], here);
    const bool of_keys = std::ranges::any_of(graph.inputs, [](const input_declaration& input) {
        return std::any_of(input.axes.begin(), input.axes.begin() + input.rank,
                           [](const axis_declaration& axis) { return axis.kind == axis_kind::key; });
    });
    if (of_keys) along.where(f_.inputs.key_length > 0);
    std::vector<Expr> at(axes.begin(), axes.end());
    at[0] = along.x;
    may_be_masked = x.masked.defined();
    const Expr value = x.masked.defined() ? or_negative_infinity(!x.masked, x.value) : x.value;
    result(axes) = 0.0f;
    result(at) = Internal::graph_substitute(axes[0].name(), along.x, value);
}

/// Whether a sum is no part of another one, and its index is the last one of all that depends on it.
bool precomputed_tensor::is_read_along(int sum) const {
    const instruction& it = f_.node(sum);
    if (it.op != operation::sum || it.kind != kind::real) return false;
    const std::uint64_t index = std::uint64_t{1} << f_.node(it.arguments[0]).integer;
    const std::vector<bool> body =
        under(f_.graph(), {it.arguments[2]}, [&](int n) { return (f_.depends[n].bound & index) == 0; });
    bool some = false;
    for (int n = 0; n < sum; ++n) {
        const instruction& load = f_.node(n);
        if (!body[n] || (f_.depends[n].bound & index) == 0 || n == it.arguments[0]) continue;
        if (load.op == operation::sum || load.op == operation::any) return false;
        if (load.op != operation::load) continue;
        for (int i = 1; i < load.argument_count; ++i) {
            const bool last = i + 1 == load.argument_count;
            if (last != (load.arguments[i] == it.arguments[0])) return false;
            if (!last && (f_.depends[load.arguments[i]].bound & index)) return false;
        }
        some = true;
    }
    return some;
}

Func precomputed_tensor::sum_of_vectors(int sum, const place& here) {
    const instruction& it = f_.node(sum);
    const int index = static_cast<int>(f_.node(it.arguments[0]).integer);
    for (std::size_t bound = 0; bound < f_.graph().indices.size(); ++bound)
        if ((f_.depends[sum].bound >> bound & 1) && !here.indices.contains(static_cast<int>(bound))) return {};
    const Expr extent = number(it.arguments[1]);
    const auto known = as_const_int(extent);
    const bool whole = known && *known % width == 0;
    // Algorithm
    dot made;
    made.lane = Var("lane"), made.partial = Func("partial_sums"), made.sum = Func("dot");
    made.steps = RDom(0, (extent + width - 1) / width, "steps"), made.lanes = RDom(0, width, "lanes");
    place within = here;
    const Expr element = made.steps * width + made.lane;
    within.indices[index] = element;
    if (whole) within.extents[index] = it.arguments[1];
    const quantity x = f_.evaluate(it.arguments[2], within);
    if (x.masked.defined()) return {};
    std::vector<Var> of_lane{made.lane};
    of_lane.insert(of_lane.end(), axes.begin(), axes.end());
    made.partial(of_lane) = 0.0f;
    made.partial(of_lane) += whole ? x.value : select(element < extent, x.value, 0.0f);
    std::vector<Expr> each(of_lane.begin(), of_lane.end());
    each[0] = made.lanes.x;
    made.sum(axes) = 0.0f;
    made.sum(axes) += made.partial(each);
    dots.push_back(made);
    return made.sum;
}

/// The smallest element that is chosen is found a digit at a time, the highest first.
void precomputed_tensor::define_choice(int node) {
    const instruction& it = f_.node(node);
    const instruction& made = f_.node(it.arguments[0]);
    const Expr zero = cast<std::uint32_t>(0);
    const Func& of = f_.inputs.computed.at(it.arguments[0]);
    const Expr length = number(made.arguments[made.argument_count - 1]);
    const std::vector<Var> row(axes.begin() + 1, axes.end());
    const auto in_row = [&](const Expr& element) {
        std::vector<Expr> at(axes.begin(), axes.end());
        at[0] = element;
        return at;
    };
    const bool by_share = it.op == operation::top_p;
    // What an element adds where a condition holds, so that those before the last one come to less than is wanted.
    const auto amount = [&](const Expr& holds, const Expr& element) {
        if (!by_share) return cast<int>(holds);
        const Expr x = of(in_row(element));
        return select(holds && ordered(in_row(element)) > zero && !holds_nan(x), max(x, 0.0f), 0.0f);
    };
    const Expr nothing = by_share ? Expr(0.0f) : Expr(0);
    // Algorithm
    ordered(axes) = in_order(of(axes));
    Expr wanted = f_.evaluate(it.arguments[1], {}).value;
    if (by_share) {
        const RDom all(0, length, "all");
        total(row) = 0.0f;
        total(row) += amount(Internal::const_true(), all.x);
        wanted = wanted * total(row);
    }
    Expr threshold = zero;
    std::vector<Var> of_digit{choice};
    of_digit.insert(of_digit.end(), row.begin(), row.end());
    for (int i = 0; i < digits_of_number; ++i) {
        const Expr shift = cast<std::uint32_t>(32 - bits_of_digit * (i + 1));
        digit next;
        const std::string number = std::to_string(i);
        next.amounts = Func("amounts_" + number), next.threshold = Func("threshold_" + number);
        next.every = RDom(0, length, "every_" + number);
        next.amounts(of_digit) = nothing;
        next.amounts(of_digit) +=
            amount(ordered(in_row(next.every.x)) >= threshold + (cast<std::uint32_t>(choice) << shift), next.every.x);
        Expr highest = zero;
        for (int d = 1; d < 1 << bits_of_digit; ++d) {
            std::vector<Expr> at(of_digit.begin(), of_digit.end());
            at[0] = d;
            highest += cast<std::uint32_t>(next.amounts(at) >= wanted);
        }
        next.threshold(row) = threshold + (highest << shift);
        digits.push_back(next);
        threshold = next.threshold(row);
    }
    const RDom each(0, length, "each"), behind(1, max(length - 1, 0), "behind");
    above(row) = nothing;
    above(row) += amount(ordered(in_row(each.x)) > threshold, each.x);
    ties(axes) = nothing;
    ties(in_row(behind.x)) =
        ties(in_row(behind.x - 1)) + amount(ordered(in_row(behind.x - 1)) == threshold, behind.x - 1);
    result(axes) = cast<std::uint8_t>(ordered(axes) > threshold || (threshold > zero && ordered(axes) == threshold &&
                                                                    ties(axes) + above(row) < wanted));
}

precomputed_tensors::precomputed_tensors(kernel_frame& frame) {
    const graph_ir& graph = frame.graph();
    for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
        if (graph.nodes[n].kind != kind::precomputed) continue;
        all.emplace_back(frame, n);
        nodes.push_back(n);
        frame.inputs.computed[n] = all.back().result;
        if (!all.back().may_be_masked) frame.inputs.never_masked.insert(n);
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
        int users = 0, chooser = -1;
        for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
            for (int a = 0; a < graph.nodes[n].argument_count; ++a)
                if (graph.nodes[n].arguments[a] == nodes[i]) {
                    ++users;
                    if (chooses(graph.nodes[n].op))
                        chooser = static_cast<int>(std::ranges::find(nodes, n) - nodes.begin());
                }
        if (users == 1) all[i].row_of = chooser;
    }
}

}  // namespace attune::generators
