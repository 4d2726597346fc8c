#pragma once
#include "analysis/graph_facts.hpp"

namespace attune::generators::inline analysis {

/// Keys that a call chooses one by one are few among many: decode lists those that some query of a key head sees, and
/// goes over the list in place of all keys. The graph says so itself: its position along the keys is a place in the
/// list, whose element is the key.
///
/// A list is a precomputed tensor of a condition over b, h, q_idx and kv_idx, (batch, key head, place): the keys that
/// meet it for some query, in order, then keys that mean nothing; its last element is the number of those that meet it.
bool lists_keys(const graph_ir& graph, int node);

/// The condition of a list, a node.
inline int condition_of_list(const graph_ir& graph, int list) {
    return graph.nodes[graph.nodes[list].arguments[0]].arguments[0];
}

/// The facts of the same formula over a list of keys; empty if its one softmax is not masked by a choice that is read
/// at kv_idx itself, or if decode makes no kernel of it.
std::shared_ptr<const graph_facts> facts_of_listed_keys(const graph_facts& of);

}  // namespace attune::generators::inline analysis
