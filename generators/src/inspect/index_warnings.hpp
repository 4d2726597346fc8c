#pragma once
#include <attune/ir/graph_ir.hpp>

#include <string>
#include <vector>

namespace attune::generators::inline inspect {

/// Indices of both positions that the formula does not keep inside the axis that they read, a sentence for each. Calls
/// check indices of one position and indices read from tensors, but not these: beyond the axis its last element is
/// read.
std::vector<std::string> indices_that_may_leave(const graph_ir& graph);

}  // namespace attune::generators::inline inspect
