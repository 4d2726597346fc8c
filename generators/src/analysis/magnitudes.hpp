#pragma once
#include <attune/ir/operations.hpp>

#include <vector>

/// Bounds of integers, from the graph alone.
namespace attune::generators::inline analysis {

constexpr double largest_int = 2147483648.0, longest = 268435456.0;  ///< no tensor has more queries or keys

/// The largest magnitude that an i32 node can have, one for each node.
std::vector<double> magnitudes(const graph_ir& graph);

/// Integers that may leave i32, where they wrap around, one for each node.
struct wrapping {
    std::vector<bool> here;   ///< a sum, a difference, a product and the like that may wrap around
    std::vector<bool> below;  ///< the same, or a number made of such integers; elements of tensors are not
};
wrapping wrapping_of(const graph_ir& graph, const std::vector<double>& magnitudes);

}  // namespace attune::generators::inline analysis
