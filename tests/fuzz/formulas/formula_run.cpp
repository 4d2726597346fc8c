#include "formula_inputs.hpp"
#include "formula_shards.hpp"
#include "relaid.hpp"

#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/error.hpp>
#include "call/shape/shape.hpp"
#include "plans/kernel_plan.hpp"
#include "tuner/jit_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>
#include <span>

namespace fuzz {
namespace {

using attune::element_type, attune::input_declaration, attune::tensor;
using attune::testing::drawn_graph;

double tolerance(const formula_case& it, const attune::reference::array& expected, element_type element) {
    double largest = 1;
    for (const double x : expected.values)
        if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
    double part = it.kernel_of.made == pass::gradient ? 5e-5 : 2e-5;  // which is a sum of sums
    if (element == element_type::bf16) part = 0x1p-8;
    if (element == element_type::f16) part = 0x1p-10;
    if (pairing_of(it.cut) != 1 || uses_tensor_cores(it.cut)) part += 0x1p-7;  // weights are rounded to bf16
    return part * largest;
}

/// A tensor without elements as NumPy lays it out: all strides are 0.
tensor as_numpy_passes(const tensor& t) {
    if (std::ranges::count(t.shape(), 0) == 0) return t;
    const std::vector<std::int64_t> shape(t.shape().begin(), t.shape().end()), strides(shape.size());
    return tensor(t.type(), const_cast<void*>(t.data()), shape, strides);
}

struct made_call {
    std::deque<formula_memory> results;
    std::deque<relaid_tensor> moved;
    std::vector<attune::detail::named_argument> arguments;
    std::vector<relaid_tensor*> outputs;  ///< in the graph's order
    std::vector<std::pair<std::string_view, relaid_tensor*>> stored;
};

made_call call_of(const formula_inputs& inputs, const drawn_graph& graph, const formula_case& it) {
    std::mt19937 random(it.seed + 3), unmoved(1);
    made_call made;
    made.arguments = inputs.arguments;
    for (auto& argument : made.arguments) {
        const bool stored = it.stores_to(argument.name);  // to a copy
        if (argument.is != attune::detail::named_argument::form::view || !(it.relaid || stored)) continue;
        const auto declared = std::ranges::find(graph.inputs, argument.name, &input_declaration::name);
        const bool dense = !it.relaid || (declared != graph.inputs.end() && has_dense_rows(*declared));
        relaid_tensor& moved = made.moved.emplace_back(argument.view, dense, it.on_gpu(), it.relaid ? random : unmoved);
        argument.view = moved.view();
        if (stored) made.stored.emplace_back(argument.name, &moved);
    }
    for (const attune::output_declaration& o : graph.outputs) {
        formula_memory& memory = made.results.emplace_back(o.name, inputs.shape_of(o));
        memory.convert(inputs.element_of_output(o));
        relaid_tensor& moved = made.moved.emplace_back(memory.of.view, true, it.on_gpu(), it.relaid ? random : unmoved);
        moved.clear();
        made.outputs.push_back(&moved);
        made.arguments.push_back({.name = o.name, .view = moved.view()});
    }
    for (auto& argument : made.arguments)
        if (argument.is == attune::detail::named_argument::form::view) argument.view = as_numpy_passes(argument.view);
    return made;
}

/// Where a function has an edge, such as a maximum's, a gradient may be that of either side: the nearest float decides.
/// A value is accepted if it changes as much when the inputs change by less than f32 tells apart.
void forgive_edges(const formula_inputs& inputs, std::size_t part, attune::reference::array& expected,
                   const tensor& got) {
    std::mt19937 random(1);
    std::vector<double> spread(expected.values.size()), came;
    attune::reference::array is = expected;
    for (int times = 0; times < 12; ++times) {
        std::deque<std::vector<double>> held;
        auto given = inputs.for_reference(part);
        for (auto& [name, value] : given) {
            const auto* const t = std::get_if<tensor>(&value);
            if (t == nullptr ||
                (t->type() != element_type::f32 && t->type() != element_type::bf16 && t->type() != element_type::f16))
                continue;
            std::vector<double>& moved = held.emplace_back(numbers_in(*t));
            for (double& x : moved) x *= 1 + 2e-6 * (static_cast<double>(random() % 2001) / 1000 - 1);
            value = tensor(element_type::f64, static_cast<const void*>(moved.data()), t->shape());
        }
        const attune::reference::array& other = inputs.evaluate(given)[expected.name];
        for (std::size_t i = 0; i < spread.size(); ++i)
            spread[i] = std::max(spread[i], std::abs(other.values[i] - expected.values[i]));
    }
    const std::vector<double> results = numbers_in(got);
    for (std::size_t i = 0; i < spread.size(); ++i)
        if (std::abs(results[i] - expected.values[i]) <= 4 * spread[i]) expected.values[i] = results[i];
}

outcome judge(const formula_case& it, formula_inputs& inputs, const drawn_graph& graph, const made_call& made) {
    outcome result;
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
        const std::string_view name = graph.outputs[i].name;
        const relaid_tensor& output = *made.outputs[i];
        if (output.is_spilled()) return {outcome_kind::spilled, fmt::format("beside the elements of {}", name)};
        const auto axes = attune::detail::axes_of_output(graph.view(), graph.outputs[i]);
        for (std::size_t part = 0; part < inputs.parts(); ++part) {
            attune::reference::array of = inputs.expected[part][name];
            const std::vector<std::int64_t>& rows = inputs.expected[part].rows;
            const tensor got = inputs.part_of(output.view(), axes.view(), part);
            const double allowed = tolerance(it, of, got.type());
            double error = attune::reference::largest_error(got, of, rows) / allowed;
            if (!(error <= 1) && it.kernel_of.made == pass::gradient) {
                forgive_edges(inputs, part, of, got);
                error = attune::reference::largest_error(got, of, rows) / allowed;
            }
            if (!(error <= result.error)) result.error = error, result.text = name;
        }
    }
    for (const auto& [name, tensor] : made.stored) {
        if (tensor->is_spilled()) return {outcome_kind::spilled, fmt::format("beside the elements of {}", name)};
        const auto axes = inputs.axes_of_argument(name);
        for (std::size_t part = 0; part < inputs.parts(); ++part) {
            const attune::reference::array& of = inputs.expected[part][name];
            const attune::tensor got = inputs.part_of(tensor->view(), axes, part);
            // A value that is rounded to fewer bits or to an integer is exact: random_graph says why.
            const double allowed = got.type() == element_type::f32 ? tolerance(it, of, got.type()) : 1e-30;
            const double error = attune::reference::largest_error(got, of, {}) / allowed;
            if (!(error <= result.error)) result.error = error, result.text = name;
        }
    }
    if (!(result.error <= 1)) {
        result.kind = outcome_kind::wrong;
        result.text = fmt::format("{} is off by {:.3g} times what is allowed", result.text, result.error);
    } else {
        result.text.clear();
    }
    return result;
}

outcome outcome_of_call(const formula_case& it, const drawn_graph& graph, const attune::kernel_table& table,
                        const attune::generators::element_types& types) {
    formula_inputs inputs(it, graph, types);
    const made_call made = call_of(inputs, graph, it);
    attune::options how{.threads = it.threads};
    if (it.on_gpu()) how.target = it.level;
    try {
        attune::detail::call(table, made.arguments, how);
    } catch (const attune::error& refusal) {
        if (it.kernel_of.made == pass::none || !wants_an_entry(refusal.what(), inputs.for_reference(0))) throw;
        return {outcome_kind::refused, refusal.what()};
    }
    outcome result = judge(it, inputs, graph, made);
    if (result.kind != outcome_kind::agrees) return result;
    const made_call again = call_of(inputs, graph, it);
    how.threads = it.threads % 4 + 1;
    attune::detail::call(table, again.arguments, how);
    for (std::size_t i = 0; i < made.outputs.size(); ++i)
        if (again.outputs[i]->elements() != made.outputs[i]->elements())
            return {outcome_kind::unequal, fmt::format("output {}", graph.outputs[i].name)};
    for (std::size_t i = 0; i < made.stored.size(); ++i)
        if (again.stored[i].second->elements() != made.stored[i].second->elements())
            return {outcome_kind::unequal, fmt::format("stored {}", made.stored[i].first)};
    return result;
}

}  // namespace

outcome outcome_of(const formula_case& it, bool mistaken) try {
    const drawn_graph graph = it.compiled();
    drawn_graph compiled = graph;
    for (attune::instruction& n : compiled.nodes)
        if (mistaken && n.op == attune::operation::minimum) n.op = attune::operation::maximum;
    const attune::generators::variant variant{"fuzzed", compiled.view()};
    attune::generators::listed_kernel listed;
    try {
        listed = it.kernel(variant);
        if (it.on_gpu()) (void)attune::generators::plan_kernel(listed.request);  // there, some graphs are refused
    } catch (const std::runtime_error& refusal) {
        return {outcome_kind::refused, refusal.what()};
    }
    const attune::generators::jit_kernel kernel(listed);
    const auto& types = listed.request.types;
    return it.kernel_of.made == pass::shard ? outcome_of_shards(it, graph, kernel.table(), types)
                                            : outcome_of_call(it, graph, kernel.table(), types);
} catch (const std::exception& problem) {
    return {outcome_kind::failed, problem.what()};
}

}  // namespace fuzz
