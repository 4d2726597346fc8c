#include "inspect/explain_cost.hpp"

#include "base/formatting.hpp"
#include "inspect/node_text.hpp"

#include <attune/ir/gradient_outputs.hpp>
#include <attune/ir/integer_operations.hpp>
#include <attune/ir/own_axes.hpp>
#include <attune/ir/projections.hpp>
#include <attune/ir/recurrence.hpp>
#include <attune/runtime/detail/call.hpp>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace attune::generators::inline inspect {
namespace {

/// One size: its letter and its value.
struct size {
    std::string letter;
    double value;
};

size size_of(axis_kind axis, std::string_view name, const depth_pair& depths, const call_sizes& call) {
    switch (axis) {
        case axis_kind::batch: return {"B", call.batches};
        case axis_kind::head: return {"H", call.heads};
        case axis_kind::key_head: return {"Hk", call.key_heads};
        case axis_kind::query: return {"Lq", call.queries};
        case axis_kind::key: return {"Lk", call.keys};
        case axis_kind::position: return {"max(Lq, Lk)", std::max(call.queries, call.keys)};
        case axis_kind::depth: return {"D", static_cast<double>(depths.depth)};
        case axis_kind::value_depth: return {"Dv", static_cast<double>(depths.value_depth)};
        case axis_kind::free: break;
    }
    return {std::string(name), 1};
}

cost product(int factor, const std::vector<size>& sizes) {
    cost c{std::to_string(factor), static_cast<double>(factor)};
    for (const size& s : sizes) c.formula += " " + s.letter, c.value *= s.value;
    return c;
}

void add(cost& to, const cost& more) {
    to.formula += (to.formula.empty() ? "" : " + ") + more.formula;
    to.value += more.value;
}

/// A number of the call as far as `call` knows it; axes that only tables have count once.
double number_of(const graph_ir& graph, int node, const depth_pair& depths, const call_sizes& call) {
    const instruction& it = graph.nodes[node];
    const auto x = [&](std::size_t i) { return number_of(graph, it.arguments[i], depths, call); };
    if (it.op == operation::constant) return static_cast<double>(it.integer);
    if (it.op == operation::depth) return depths.depth;
    if (it.op == operation::value_depth) return depths.value_depth;
    if (it.op == operation::heads) return call.heads;
    if (it.op == operation::key_heads) return call.key_heads;
    if (it.op == operation::batches) return call.batches;
    if (it.op == operation::query_length) return call.queries;
    if (it.op == operation::key_length) return call.keys;
    if (family_of(it.op) == family::arithmetic || family_of(it.op) == family::bits)
        return static_cast<double>(exact_integers::of(it.op)(static_cast<std::int64_t>(x(0)),
                                                             static_cast<std::int64_t>(x(it.argument_count - 1))));
    if (it.op == operation::same) return std::max(x(0), x(1));  // either may be a table's own
    if (it.op != operation::extent) return 1;
    const instruction& of = graph.nodes[it.arguments[0]];
    const axis_declaration& axis =
        graph.inputs[static_cast<std::size_t>(of.input)].axes[static_cast<std::size_t>(it.integer)];
    return size_of(axis.kind, axis.name, depths, call).value;
}

/// A number of the call under the name that it has first.
size named_number(const graph_ir& graph, int node, const depth_pair& depths, const call_sizes& call) {
    int named = node;
    while (graph.nodes[named].op == operation::same) named = graph.nodes[named].arguments[0];
    const std::string text = text_of(graph, named);
    return {text.find(' ') == text.npos ? text : "(" + text + ")", number_of(graph, node, depths, call)};
}

/// Tokens (B, Lq, width), or a computed tensor (B, H, its length, its depth).
std::vector<size> sizes_of_computed(const graph_ir& graph, int tensor, const depth_pair& depths,
                                    const call_sizes& call) {
    const instruction& it = graph.nodes[tensor];
    if (it.op == operation::tokens)
        return {{"B", call.batches}, {"Lq", call.queries}, named_number(graph, it.arguments[1], depths, call)};
    const bool values = it.op == operation::values, of_keys = values || it.op == operation::keys;
    return {{"B", call.batches},
            {"H", call.heads},
            size_of(of_keys ? axis_kind::key : axis_kind::query, "", depths, call),
            size_of(values ? axis_kind::value_depth : axis_kind::depth, "", depths, call)};
}

}  // namespace

call_sizes call_sizes_from(const std::string& text) {
    long long b = 0, h = 0, hk = 0, lq = 0, lk = 0;
    int used = 0;
    const auto whole = [&] {
        return used == static_cast<int>(text.size()) && b > 0 && h > 0 && hk > 0 && lq >= 0 && lk >= 0;
    };
    if (std::sscanf(text.c_str(), "%lldx%lld:%lldx%lldx%lld%n", &b, &h, &hk, &lq, &lk, &used) == 5 && whole())
        return {double(b), double(h), double(hk), double(lq), double(lk)};
    used = 0;
    if (std::sscanf(text.c_str(), "%lldx%lldx%lldx%lld%n", &b, &h, &lq, &lk, &used) == 4 && (hk = h, whole()))
        return {double(b), double(h), double(h), double(lq), double(lk)};
    throw std::runtime_error(
        "expected a shape as batch x heads x queries x keys, such as 1x8x2048x2048, or 1x8:2x2048x2048 with 2 key "
        "heads, got \"" +
        text + "\"");
}

cost flops_of(const graph_facts& facts, const depth_pair& depths, const call_sizes& call) {
    const graph_ir& graph = facts.graph;
    const auto count = [&](operation op) {
        return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                              [&](const instruction& node) { return node.op == op; }));
    };
    if (has_recurrences(graph.nodes)) {  // for each element of a state: its reads and the products that add to it
        const recurrence_arguments of = form_of_recurrence(graph.nodes);
        const bool erases = !is_constant(graph.nodes[of.erase], 0);
        const int products =
            is_gradient_of_recurrence(graph.nodes)
                ? (erases ? 14 : 9)  // states and cotangents twice, then the parts
                : 1 + count(operation::read_states) + (erases ? 1 : 0) + (of.has_second_pair() ? 2 : 0);
        return product(2 * products, {{"B", call.batches},
                                      {"H", call.heads},
                                      {"Lq", call.queries},
                                      {"D", static_cast<double>(depths.depth)},
                                      {"Dv", static_cast<double>(depths.value_depth)}});
    }
    const std::vector<size> pairs{{"B", call.batches}, {"H", call.heads}, {"Lq", call.queries}, {"Lk", call.keys}};
    cost total;
    const auto contracted_over = [&](int times, const size& channels) {
        if (times == 0) return;
        std::vector<size> sizes = pairs;
        sizes.push_back(channels);
        add(total, product(2 * times, sizes));
    };
    const std::vector<const plan*> cores = facts.core.cores();
    const auto count_cores = [&](int plan::* node) {
        return static_cast<int>(std::ranges::count_if(cores, [&](const plan* core) { return core->*node >= 0; }));
    };
    const int products = facts.gradient ? count(operation::contract) : count_cores(&plan::contraction);
    contracted_over(products * (facts.core.saved_rows > 0 ? 2 : 1),
                    {"D", static_cast<double>(depths.depth)});  // a second pass makes scores again
    const auto further = [&](std::span<const further_contraction> sums) {
        for (const further_contraction& other : sums)
            contracted_over(1, named_number(graph, other.extent, depths, call));
    };
    if (!facts.gradient) {
        for (const plan* core : cores) further(core->further);
    } else {
        further(contractions_under(graph, facts.depends, facts.gradient->tiles));
        for (const gradient_sum& sum : facts.gradient->sums)
            if (sum.rows >= 0)
                contracted_over(1, {sum.of_values ? "Dv" : "D",
                                    static_cast<double>(sum.of_values ? depths.value_depth : depths.depth)});
    }
    contracted_over(count_cores(&plan::weights), {"Dv", static_cast<double>(depths.value_depth)});
    for (const node_id tensor : computed_in_full(graph))
        for (const matrix_product& of : products_of(graph, tensor)) {
            std::vector<size> sizes = sizes_of_computed(graph, tensor, depths, call);
            sizes.push_back(named_number(graph, of.extent, depths, call));
            add(total, product(2, sizes));
        }
    return total.formula.empty() ? cost{std::string(1, '0'), 0} : total;
}

cost bytes_of_computed(const graph_ir& graph, const depth_pair& depths, const call_sizes& call) {
    cost total;
    for (const node_id tensor : computed_in_full(graph))
        if (std::none_of(graph.outputs.begin(), graph.outputs.end(),
                         [tensor](const output_declaration& o) { return o.node == tensor; }))
            add(total, product(4, sizes_of_computed(graph, tensor, depths, call)));
    return total.formula.empty() ? cost{"0", 0} : total;
}

namespace {

cost bytes_along(const input_declaration& axes, element_type element, const depth_pair& depths,
                 const call_sizes& call) {
    std::vector<size> sizes;
    for (int axis = 0; axis < axes.rank; ++axis)
        sizes.push_back(size_of(axes.axes[axis].kind, axes.axes[axis].name, depths, call));
    return product(bytes_of(element), sizes);
}

}  // namespace

cost bytes_of_input(const input_declaration& input, element_type of_any, const depth_pair& depths,
                    const call_sizes& call) {
    return bytes_along(input, input.element == element_type::any ? of_any : input.element, depths, call);
}

std::vector<std::string> axes_of_output(const graph_ir& graph, const output_declaration& output) {
    if (const int input = input_of_gradient(graph, output); input >= 0) {
        std::vector<std::string> axes;
        const input_declaration& of = graph.inputs[static_cast<std::size_t>(input)];
        for (int axis = 0; axis < of.rank; ++axis) axes.emplace_back(of.axes[static_cast<std::size_t>(axis)].name);
        return axes;
    }
    std::vector<std::string> axes;
    for (const axis_kind axis : detail::axes_of_output(graph.nodes[output.node]))
        axes.emplace_back(axis == axis_kind::free ? name_of_own_axis(graph, output, axes.size()) : name_of(axis));
    return axes;
}

cost bytes_of_output(const graph_ir& graph, const output_declaration& output, element_type element,
                     const depth_pair& depths, const call_sizes& call) {
    if (const int input = input_of_gradient(graph, output); input >= 0)
        return bytes_along(graph.inputs[static_cast<std::size_t>(input)], element, depths, call);
    std::vector<size> sizes;
    const bool precomputed = graph.nodes[output.node].kind == kind::precomputed;
    for (const std::string& axis : axes_of_output(graph, output)) {
        if (precomputed && sizes.size() > 1) {
            sizes.push_back(named_number(graph, extent_of_own_axis(graph, output, sizes.size()), depths, call));
            continue;
        }
        const axis_kind is = axis == "batch"         ? axis_kind::batch
                             : axis == "head"        ? axis_kind::head
                             : axis == "query"       ? axis_kind::query
                             : axis == "key"         ? axis_kind::key
                             : axis == "depth"       ? axis_kind::depth
                             : axis == "key_head"    ? axis_kind::key_head
                             : axis == "value_depth" ? axis_kind::value_depth
                                                     : axis_kind::free;
        sizes.push_back(size_of(is, axis, depths, call));
    }
    return product(bytes_of(element), sizes);
}

cost bytes_of_saved_rows(int saved_rows, const call_sizes& call) {
    if (saved_rows == 0) return {"0", 0};
    return product(4 * saved_rows, {{"B", call.batches}, {"H", call.heads}, {"Lq", call.queries}});
}

}  // namespace attune::generators::inline inspect
