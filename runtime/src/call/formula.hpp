#pragma once
#include <attune/ir/graph_ir.hpp>

#include <string>

namespace attune::detail {

/// A node as it would be written: "kv_idx - q_idx <= w"; shortened where it is long.
std::string formula_of(const graph_ir& graph, int node);

}  // namespace attune::detail
