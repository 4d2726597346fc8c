#pragma once
#include <attune/ir/graph_ir.hpp>

#include <string>

namespace attune::generators::inline inspect {

/// One node of a graph as the language spells it; parts that graph_ir::text names have their names.
std::string text_of(const graph_ir& graph, int node);

}  // namespace attune::generators::inline inspect
