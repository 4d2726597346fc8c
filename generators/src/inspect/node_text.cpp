#include "inspect/node_text.hpp"

#include <attune/ir/print.hpp>

#include <algorithm>
#include <memory>

namespace attune::generators::inline inspect {

std::string text_of(const graph_ir& graph, int node) {
    const auto list = std::make_unique<dsl::detail::ir_builder>();
    std::copy(graph.nodes.begin(), graph.nodes.end(), list->nodes.begin());
    std::copy(graph.inputs.begin(), graph.inputs.end(), list->inputs.begin());
    std::copy(graph.indices.begin(), graph.indices.end(), list->indices.begin());
    list->node_count = static_cast<int>(graph.nodes.size());
    dsl::detail::describer describer{*list};
    describer.find_shared();
    describer.value(node_at(node), 0, false, true);
    std::string text(describer.to.size, '\0');
    describer.to = {text.data(), 0};
    describer.value(node_at(node), 0, false, true);
    return text;
}

}  // namespace attune::generators::inline inspect
