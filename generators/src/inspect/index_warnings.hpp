#pragma once
#include <attune/ir/graph_ir.hpp>

#include <string>
#include <vector>

namespace attune::generators {

/// Indices of both positions that the formula does not keep inside the axis that they read, a sentence each: calls
/// check what one position makes and what tensors hold, and read these at the axis's end.
std::vector<std::string> indices_that_may_leave(const graph_ir& graph);

}  // namespace attune::generators
