#include "formula_case.hpp"
#include "relaid.hpp"

#include <attune/ir/element.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/error.hpp>
#include "tuner/jit_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>
#include <span>

namespace fuzz {
namespace {

using attune::element_type;
using attune::graph_ir;
using attune::input_declaration;
using attune::tensor;
using attune::support::workload;

void draw_elements(workload& call, const formula_case& it) {
    for (const input_declaration& d : it.graph.inputs) {
        if (d.is_scalar) continue;
        if (d.name == "packed" || d.element == element_type::u8 || d.element == element_type::i8)
            call.draw(d.name, 0, 255);
        if (d.name == "place" || d.name == "chosen") call.draw(d.name, -2, static_cast<int>(it.shape.keys) + 1);
        if (d.name == "allowed" || d.name == "flag") call.draw(d.name, 0, 1);
        if (d.element == element_type::f8_e4m3 || d.element == element_type::f8_e5m2) {  // up to 3, of either sign
            call.draw(d.name, 0, 0x42);
            std::uint8_t sign = 0;
            for (std::uint8_t& x : call[d.name].bytes) x |= sign = static_cast<std::uint8_t>(sign * 5 + x * 128 + 128);
        }
    }
}

void put_nan(attune::support::owned_tensor& t, std::int64_t at) {
    if (!t.reals.empty()) t.reals[static_cast<std::size_t>(at)] = std::nanf("");
    if (!t.halves.empty()) t.halves[static_cast<std::size_t>(at)] = 0x7fff;  // of both types
}

/// Keys beyond those in use may be anything: NaN in what is read at a key, and places of no page. Before tensors are
/// laid out anew: they are dense.
void spoil_beyond(workload& call, const formula_case& it) {
    for (const input_declaration& d : it.graph.inputs) {
        if (d.is_scalar || d.rank < 2 || d.axes[0].kind != attune::axis_kind::batch) continue;
        const bool table = d.name == "block_table";
        const auto is_key = [&](const auto& axis) { return axis.kind == attune::axis_kind::key || table; };
        const auto found = std::find_if(d.axes.begin() + 1, d.axes.begin() + d.rank, is_key);
        if (found == d.axes.begin() + d.rank) continue;
        attune::support::owned_tensor& t = call[d.name];
        const auto keys = static_cast<int>(found - d.axes.begin());
        const std::int64_t step = t.view.stride(keys), count = t.view.extent(keys), each = t.view.stride(0),
                           grain = table ? it.lengths.at("slot") : 1;
        for (std::int64_t at = 0; at < each * t.view.extent(0); ++at) {
            const std::int32_t used = it.kv_lengths[static_cast<std::size_t>(at / each)];
            if (at / step % count * grain < std::max(used, 1)) continue;
            if (table)
                t.integers[static_cast<std::size_t>(at)] = -1000000;
            else
                put_nan(t, at);
        }
    }
}

/// Inputs of formulas that are one element along an axis, or say so by their strides.
void broadcast(workload& call, const formula_case& it) {
    std::mt19937 random(it.seed + 5);
    for (const input_declaration& d : it.graph.inputs) {
        const bool given = d.name == "q" || d.name == "k" || d.name == "v";
        if (d.is_scalar || given) continue;
        tensor& view = call[d.name].view;
        std::vector<std::int64_t> shape(view.shape().begin(), view.shape().end()),
            strides(view.strides().begin(), view.strides().end());
        for (std::size_t axis = 0; axis < d.rank; ++axis) {
            const bool dense = axis + 1 == d.rank && has_dense_rows(d);
            if (dense || shape[axis] < 2 || random() % 3 != 0) continue;
            // A cache's keys, and what tells of them, stay as long as they are.
            const bool free =
                d.axes[axis].kind == attune::axis_kind::free || d.axes[axis].kind == attune::axis_kind::key;
            if (free || random() % 2 == 0)
                strides[axis] = 0;
            else
                shape[axis] = 1;
        }
        view = tensor(view.type(), const_cast<void*>(view.data()), shape, strides);
    }
}

double tolerance(const formula_case& it, const attune::reference::array& expected, element_type element) {
    double largest = 1;
    for (const double x : expected.values)
        if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
    double part = 2e-5;
    if (element == element_type::bf16) part = 0x1p-8;
    if (element == element_type::f16) part = 0x1p-10;
    if (pairing_of(it.cut) == 2) part += 0x1p-7;  // weights are rounded to bf16
    return part * largest;
}

struct made_call {
    std::deque<relaid_tensor> moved;
    std::vector<attune::detail::named_argument> arguments;
    std::vector<std::pair<std::string_view, relaid_tensor*>> outputs;
};

bool is_output(const formula_case& it, std::string_view name) {
    return std::ranges::any_of(it.graph.outputs, [&](const auto& o) { return o.name == name; });
}

made_call arguments_of(const workload& call, const formula_case& it) {
    std::mt19937 random(it.seed + 3);
    made_call made;
    made.arguments = call.arguments();
    for (auto& argument : made.arguments) {
        if (argument.is != attune::detail::named_argument::form::view) continue;
        const bool output = is_output(it, argument.name);
        if (!output && !it.relaid) continue;
        const auto declared = std::ranges::find(it.graph.inputs, argument.name, &input_declaration::name);
        const bool dense = output || !it.relaid || (declared != it.graph.inputs.end() && has_dense_rows(*declared));
        std::mt19937 unmoved(1);
        relaid_tensor& moved = made.moved.emplace_back(argument.view, dense, it.relaid ? random : unmoved);
        if (output) moved.clear(), made.outputs.emplace_back(argument.name, &moved);
        argument.view = moved.view();
    }
    return made;
}

/// Types of q, k, v and the output, as the kernel has them.
void convert(workload& call, const formula_case& it, const attune::generators::element_types& types) {
    for (const input_declaration& d : it.graph.inputs)
        if (d.element == element_type::any && !d.is_scalar)
            call.convert(d.name, d.name == "q" ? types.query : d.name == "k" ? types.key : types.value);
    for (const attune::output_declaration& o : it.graph.outputs)
        if (it.graph.nodes[static_cast<std::size_t>(o.node)].kind == attune::kind::output)
            call.convert(o.name, types.output);
}

outcome judge(const formula_case& it, const workload& call, const made_call& made) {
    outcome result;
    const auto expected = call.expected();
    for (const auto& [name, output] : made.outputs) {
        if (output->is_spilled()) return {outcome_kind::spilled, fmt::format("beside the elements of {}", name)};
        const attune::reference::array& of = expected[name];
        const double allowed = tolerance(it, of, output->view().type());
        const double error = attune::reference::largest_error(output->view(), of, expected.rows) / allowed;
        if (!(error <= result.error)) result.error = error, result.text = name;
    }
    if (!(result.error <= 1)) {
        result.kind = outcome_kind::wrong;
        result.text = fmt::format("output {} is off by {:.3g} times what is allowed", result.text, result.error);
    } else {
        result.text.clear();
    }
    return result;
}

}  // namespace

outcome outcome_of(const formula_case& it, bool mistaken) try {
    attune::testing::drawn_graph compiled = it.graph;
    for (attune::instruction& n : compiled.nodes)
        if (mistaken && n.op == attune::operation::minimum) n.op = attune::operation::maximum;
    const attune::generators::variant variant{"fuzzed", compiled.view()};
    attune::generators::listed_kernel listed;
    try {
        listed = it.kernel(variant);
    } catch (const std::runtime_error& refusal) {
        return {outcome_kind::refused, refusal.what()};
    }
    const attune::generators::jit_kernel kernel(listed);
    workload call(it.graph.view(), it.shape, it.seed, {{"scale", 0.25}, {"gain", 0.75}, {"offset", 7}, {"seed", 4711}},
                  it.lengths);
    draw_elements(call, it);
    if (!it.kv_lengths.empty()) call.set_lengths(it.kv_lengths);
    convert(call, it, listed.request.types);
    if (!it.kv_lengths.empty()) spoil_beyond(call, it);
    if (it.broadcast) broadcast(call, it);

    made_call made = arguments_of(call, it);
    attune::detail::call(kernel.table(), made.arguments, {.threads = it.threads});
    outcome result = judge(it, call, made);
    if (result.kind != outcome_kind::agrees) return result;
    std::vector<std::vector<std::byte>> first;
    for (const auto& [name, output] : made.outputs) first.push_back(output->elements()), output->clear();
    attune::detail::call(kernel.table(), made.arguments, {.threads = it.threads % 4 + 1});
    for (std::size_t i = 0; i < first.size(); ++i)
        if (made.outputs[i].second->elements() != first[i])
            return {outcome_kind::unequal, fmt::format("output {}", made.outputs[i].first)};
    return result;
} catch (const std::exception& problem) {
    return {outcome_kind::failed, problem.what()};
}

}  // namespace fuzz
