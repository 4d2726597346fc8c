#include "analysis/graph_facts.hpp"

#include <utility>

namespace attune::generators::inline analysis {

std::shared_ptr<const graph_facts> facts_of(const graph_ir& graph) {
    std::vector<dependence> depends = dependences(graph);
    plan core = plan_of(graph, depends);
    const masking hides = masking_of(graph, depends);
    std::string no_decode = decode_unsupported_reason(graph, core);
    std::optional<gradient_plan> gradient;
    if (core.makes(kind::gradient)) gradient = gradient_plan_of(graph, depends);
    return std::make_shared<const graph_facts>(graph_facts{graph, std::move(depends), std::move(core), hides,
                                                           std::move(no_decode), std::move(gradient),
                                                           of_query_heads(graph)});
}

}  // namespace attune::generators::inline analysis
