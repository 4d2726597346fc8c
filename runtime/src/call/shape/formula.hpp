#pragma once
#include <attune/ir/graph_ir.hpp>

#include <string>

#pragma GCC visibility push(hidden)
namespace attune::detail {

/// A node as the language spells it: "kv_idx - q_idx <= w"; shortened if it is long.
std::string formula_of(const graph_ir& graph, node_id node);

}  // namespace attune::detail
#pragma GCC visibility pop
