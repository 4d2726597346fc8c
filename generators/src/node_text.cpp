#include "node_text.hpp"

#include <attune/dsl/describe.hpp>

#include <algorithm>
#include <memory>

namespace attune::generators {

std::string text_of(const listing& graph, int node) {
    const auto list = std::make_unique<dsl::detail::listing_builder>();
    std::copy(graph.nodes.begin(), graph.nodes.end(), list->nodes.begin());
    std::copy(graph.inputs.begin(), graph.inputs.end(), list->inputs.begin());
    std::copy(graph.indices.begin(), graph.indices.end(), list->indices.begin());
    dsl::detail::describer count{*list};
    count.value(static_cast<std::int16_t>(node), 0);
    std::string text(count.to.size, '\0');
    dsl::detail::describer write{*list};
    write.to.to = text.data();
    write.value(static_cast<std::int16_t>(node), 0);
    return text;
}

}  // namespace attune::generators
