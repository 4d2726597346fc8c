#include "analysis/graph_facts.hpp"

#include <utility>

namespace attune::generators {

std::shared_ptr<const graph_facts> facts_of(const graph_ir& graph) {
    std::vector<dependence> depends = dependences(graph);
    plan core = plan_of(graph, depends);
    const masking hides = masking_of(graph, depends);
    std::string no_decode = decode_unsupported_reason(graph, core);
    return std::make_shared<const graph_facts>(
        graph_facts{graph, std::move(depends), std::move(core), hides, std::move(no_decode)});
}

}  // namespace attune::generators
