#pragma once
#include <attune/ir/graph_ir.hpp>

#include <vector>

/// The nodes of a graph that make -infinity from numbers.
namespace attune::generators::inline analysis {

/// Nodes under scores and weights that may be -infinity though none of their arguments is: a logarithm at its pole, a
/// quotient by 0, a difference with +infinity, a product of +infinity, and a number as the caller passes it. One for
/// each node.
std::vector<bool> makers_of_infinity(const graph_ir& graph);

}  // namespace attune::generators::inline analysis
