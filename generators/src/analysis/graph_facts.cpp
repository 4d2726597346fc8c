#include "analysis/graph_facts.hpp"

#include "analysis/infinities.hpp"

#include <attune/ir/recurrence.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace attune::generators::inline analysis {
namespace {

/// What the reference evaluator computes alone.
void refuse_what_has_no_kernel(const graph_ir& graph) {
    if (has_recurrences(graph.nodes))
        throw std::runtime_error(
            "a recurrence has no kernel yet, the reference evaluator computes it; try the graph without it");
    if (std::ranges::any_of(graph.nodes,
                            [](const instruction& n) { return n.op == operation::tokens && n.argument_count == 3; }))
        throw std::runtime_error(
            "tokens of a length of their own, as newest(...) makes them, have no kernel yet; try the graph without "
            "them");
}

}  // namespace

std::shared_ptr<const graph_facts> facts_of(const graph_ir& graph) {
    refuse_what_has_no_kernel(graph);
    std::vector<dependence> depends = dependences(graph);
    plan core = plan_of(graph, depends);
    const masking hides = masking_of(graph, depends);
    std::string no_decode = decode_unsupported_reason(graph, core);
    std::optional<gradient_plan> gradient;
    if (core.makes(kind::gradient)) gradient = gradient_plan_of(graph, depends);
    return std::make_shared<const graph_facts>(
        graph_facts{graph, std::move(depends), std::move(core), hides, std::move(no_decode), std::move(gradient),
                    of_query_heads(graph), magnitudes(graph), wrapping_of(graph), makers_of_infinity(graph)});
}

}  // namespace attune::generators::inline analysis
