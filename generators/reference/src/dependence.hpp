#pragma once
#include <attune/ir/graph_ir.hpp>

#include <bitset>
#include <vector>

namespace attune::reference {

/// The variables with which a node's value changes: the indices of the row at hand, and the bound indices of the sums
/// around it.
enum variable : std::size_t {
    batch_index,
    head_index,
    query_index,
    key_index,
    channel_index,
    value_index,  ///< the value channel of a state
    first_bound_index
};

using variables = std::bitset<64>;

/// By position in graph_ir::nodes. An index that a node runs over itself, as a sum over its bound index, is not among
/// them.
node_map<variables> dependences(const graph_ir& graph);

inline std::size_t bound_variable(const instruction& bound) {
    return first_bound_index + static_cast<std::size_t>(bound.integer);
}

}  // namespace attune::reference
