#pragma once
#include "analysis/plan.hpp"

#include <map>
#include <vector>

namespace attune::generators::inline analysis {

/// One of the sums that the sweep over the blocks makes: numbers of pairs, or those times rows of the other side.
struct gradient_sum {
    int pairs{};        ///< node: the number of a pair
    int rows{-1};       ///< node: the other factor, which depends on `channel`; -1: none
    int channel{-1};    ///< the bound index, in graph_ir::indices
    bool of_values{};   ///< whether `channel` counts the channels of values
    bool of_queries{};  ///< a row of the sum is a query's, summed over the keys; else a key's, summed over the queries
    bool per_head{};    ///< for keys: not summed over the query heads of a group
    bool operator==(const gradient_sum&) const = default;
};

/// A bound index of a deposit, and its extent: nodes.
struct counted_index {
    int index{}, extent{};
};

/// One deposit (graph_ir.hpp).
struct gradient_term {
    enum class form : std::uint8_t {
        copied,  ///< a sum as it is: for q, k, v and tensors that are declared as they are
        placed,  ///< a formula of sums of a query or of a key, placed by an index of that query or key
        by_pair  ///< placed pair by pair
    };
    form is{};
    int deposit{};         ///< node
    std::size_t output{};  ///< in graph_ir::outputs
    int value{};           ///< node: the number that is added for each of `over`
    std::vector<counted_index> over{};
    bool of_queries{};                  ///< the copied or placed number is a query's
    std::map<int, std::size_t> sums{};  ///< nodes under the value that are sums, in gradient_plan::sums
    /// A part of the value that is added up over an index first, to a number of the position; it contains all sums. -1:
    /// none.
    int added_first{-1};
    counted_index added_over{};
    std::vector<int> tiles{};  ///< by_pair: nodes under the value that are made a tile at a time
};

/// The work of a gradient's kernel: pairs' numbers a tile at a time, and sums of them.
struct gradient_plan {
    std::vector<gradient_sum> sums;
    std::vector<gradient_term> terms;
    std::vector<int> tiles;  ///< nodes: the pairs' numbers that are summed, each once, in order
};

/// Throws std::runtime_error, a sentence, for a gradient that has no kernel yet.
gradient_plan gradient_plan_of(const graph_ir& graph, const std::vector<dependence>& depends);

/// The largest part of a value in which the value is linear, and which counts no other indices than these, a bit each.
/// `holds`: the nodes to choose from. -1 if there is none.
int linear_part(const graph_ir& graph, const std::vector<dependence>& depends, int value, std::uint64_t indices,
                const std::vector<bool>& holds);

/// These nodes, and all nodes that contain one of them.
std::vector<bool> holding(const graph_ir& graph, const std::vector<int>& nodes);

/// The dependence of a value apart from one of its parts.
dependence beside(const graph_ir& graph, const std::vector<dependence>& depends, int value, int part,
                  const std::vector<bool>& holds);

/// Whether a number is an element of a row as it lies: of q, k, v or a tensor that is declared as they are, at a bare
/// batch element, head and position, and at the bound index `channel`.
bool is_plain_row(const graph_ir& graph, int node, int channel);

}  // namespace attune::generators::inline analysis
