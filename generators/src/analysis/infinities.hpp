#pragma once
#include <attune/ir/graph_ir.hpp>

#include <vector>

/// Where a graph makes -infinity of numbers.
namespace attune::generators::inline analysis {

/// Nodes that may be -infinity though none of their arguments is: a logarithm at its pole, a quotient by 0, what is
/// taken from +infinity, and a number as the caller passes it; of those that scores and weights are made of. One for
/// each node.
std::vector<bool> makers_of_infinity(const graph_ir& graph);

}  // namespace attune::generators::inline analysis
