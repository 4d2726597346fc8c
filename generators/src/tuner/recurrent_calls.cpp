#include "tuner/recurrent_calls.hpp"

#include <attune/ir/element.hpp>
#include <attune/ir/recurrence.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace attune::generators::inline tuner {
namespace {

const instruction& node(const graph_ir& graph, node_id n) { return graph.nodes[static_cast<std::size_t>(n)]; }

/// The inputs whose elements a formula has as its value, perhaps by a choice.
void add_values(const graph_ir& graph, node_id n, std::vector<int>& inputs) {
    const instruction& it = node(graph, n);
    if (it.op == operation::where)
        add_values(graph, it.arguments[1], inputs), add_values(graph, it.arguments[2], inputs);
    else if (it.op == operation::load && node(graph, it.arguments[0]).op == operation::input)
        inputs.push_back(node(graph, it.arguments[0]).input);
}

template <class F> void change(support::owned_tensor& t, element_type element, F changed) {
    for (float& x : t.reals) x = changed(x);
    for (std::uint16_t& bits : t.halves)
        if (element == element_type::bf16) {
            bfloat16 half;
            half.bits = bits, bits = bfloat16(changed(static_cast<float>(half))).bits;
        } else {
            float16 half;
            half.bits = bits, bits = float16(changed(static_cast<float>(half))).bits;
        }
}

float below_one(float x) { return std::min(std::abs(x), 1.0f); }

}  // namespace

void keep_states_finite(support::workload& call, const graph_ir& graph) {
    if (!has_recurrences(graph.nodes)) return;
    const node_id decay = form_of_recurrence(graph.nodes).decay;
    const bool of_logarithm = node(graph, decay).op == operation::exp;
    std::vector<int> decays;
    add_values(graph, of_logarithm ? node(graph, decay).arguments[0] : decay, decays);
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
        const input_declaration& input = graph.inputs[i];
        if (input.is_scalar) continue;
        const auto has = [&](axis_kind axis) {
            return std::any_of(input.axes.begin(), input.axes.begin() + input.rank,
                               [&](const axis_declaration& each) { return each.kind == axis; });
        };
        const auto to = [&](auto changed) { change(call[input.name], input.element, changed); };
        if (std::ranges::find(decays, static_cast<int>(i)) != decays.end())
            to([&](float x) { return of_logarithm ? -0.25f * below_one(x) : 1 - 0.25f * below_one(x); });
        else if (has(axis_kind::value_depth))
            continue;  // values and states may have any size
        else if (has(axis_kind::depth))
            to([&, length = 1 / std::sqrt(static_cast<float>(call.view(input.name).extent(input.rank - 1)))](float x) {
                return x * length;
            });
        else
            to(below_one);
    }
}

std::vector<attune::detail::named_argument> arguments_in_place(const support::workload& call, const graph_ir& graph) {
    std::vector<attune::detail::named_argument> arguments = call.arguments();
    const node_id recurrence = recurrence_of(graph.nodes);
    if (recurrence < 0 || !is_a_state_as_passed(graph, recurrence)) return arguments;
    const node_id first = arguments_of(node(graph, recurrence)).initial;
    const std::string_view passed =
        graph.inputs[static_cast<std::size_t>(node(graph, node(graph, first).arguments[0]).input)].name;
    for (const output_declaration& output : graph.outputs)
        if (node(graph, output.node).kind == kind::last_state)
            for (attune::detail::named_argument& each : arguments)
                if (each.name == output.name) each.view = call.view(passed);
    return arguments;
}

}  // namespace attune::generators::inline tuner
