#pragma once
#include "simulation.hpp"

#include <cstdint>
#include <span>

/// Decode over many nodes in virtual time: few queries, which all nodes have and of which all get the results.
namespace simulated {

struct decoded {
    double seconds{};  ///< until the last node has the results, with the agreement before the call
    double bytes{};    ///< sent by all nodes
    std::int64_t messages{};
};

/// By the plans of all ranks: states go down the tree and the results up. A port carries one message at a time.
decoded tree_of_states(std::span<const attune::mpi::layout> plans, const network& by);

/// The state goes from node to node, each of which joins its own, and the results go back by a tree.
decoded ring_of_states(std::span<const attune::mpi::layout> plans, const network& by);

/// Keys go from node to node, as in ring attention: each node computes with those of one while it hands them on.
decoded ring_of_keys(std::span<const attune::mpi::layout> plans, const network& by);

}  // namespace simulated
