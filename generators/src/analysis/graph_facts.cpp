#include "analysis/graph_facts.hpp"

#include "analysis/infinities.hpp"

#include <attune/ir/recurrence.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace attune::generators::inline analysis {
namespace {

/// Refuses graphs that only the reference evaluator computes.
void refuse_what_has_no_kernel(const graph_ir& graph) {
    if (std::ranges::any_of(graph.nodes,
                            [](const instruction& n) { return n.op == operation::tokens && n.argument_count == 3; }))
        throw std::runtime_error(
            "tokens of a length of their own, as newest(...) makes them, have no kernel yet; try the graph without "
            "them");
}

/// A recurrence has no attention core: its kernel's work follows from its nodes (cpu/recurrence.hpp).
std::shared_ptr<const graph_facts> facts_of_recurrence(const graph_ir& graph, std::vector<dependence> depends) {
    plan core;
    std::vector<double> sizes = magnitudes(graph);
    wrapping wraps = wrapping_of(graph, sizes);
    for (const output_declaration& output : graph.outputs) core.outputs.push_back(graph.nodes[output.node].kind);
    std::string no_decode;
    if (is_gradient_of_recurrence(graph.nodes)) no_decode = "gradients are summed over the queries";
    return std::make_shared<const graph_facts>(graph_facts{graph,
                                                           std::move(depends),
                                                           std::move(core),
                                                           {},
                                                           std::move(no_decode),
                                                           std::nullopt,
                                                           of_query_heads(graph),
                                                           std::move(sizes),
                                                           std::move(wraps),
                                                           makers_of_infinity(graph)});
}

}  // namespace

std::shared_ptr<const graph_facts> facts_of(const graph_ir& graph) {
    refuse_what_has_no_kernel(graph);
    std::vector<dependence> depends = dependences(graph);
    if (has_recurrences(graph.nodes)) return facts_of_recurrence(graph, std::move(depends));
    plan core = plan_of(graph, depends);
    std::vector<double> sizes = magnitudes(graph);
    wrapping wraps = wrapping_of(graph, sizes);
    std::vector<bool> infinities = makers_of_infinity(graph);
    const masking hides = masking_of(graph, depends, {graph, depends, wraps, infinities});
    std::string no_decode = decode_unsupported_reason(graph, core);
    std::optional<gradient_plan> gradient;
    if (core.makes(kind::gradient)) gradient = gradient_plan_of(graph, depends);
    return std::make_shared<const graph_facts>(
        graph_facts{graph, std::move(depends), std::move(core), hides, std::move(no_decode), std::move(gradient),
                    of_query_heads(graph), std::move(sizes), std::move(wraps), std::move(infinities)});
}

}  // namespace attune::generators::inline analysis
