#pragma once
#include <attune/ir/graph_ir.hpp>

#include <attune/runtime/explain.hpp>

#include <string>
#include <vector>

/// What a graph says about a call, for explain. Plain words over its flat list; nothing here decides anything.
namespace attune::detail {

/// A node as it would be written: "kv_idx - q_idx <= w"; shortened where it is long.
std::string formula_of(const graph_ir& graph, int node);

/// The conjuncts of every mask, and of every where() that chooses between a score and -infinity.
std::vector<explanation::condition> conditions_of(const graph_ir& graph);

/// How the graph's words are meant, one sentence each: alignment, empty rows, logarithm, heads.
std::vector<std::string> semantics_of(const graph_ir& graph, std::int64_t heads, std::int64_t key_heads,
                                      bool with_lengths);

}  // namespace attune::detail
