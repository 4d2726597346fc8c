#pragma once
#include "analysis/gradient_plan.hpp"
#include "analysis/magnitudes.hpp"
#include "analysis/mask_class.hpp"
#include "analysis/plan.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attune::generators::inline analysis {

/// A graph and the facts that follow from it alone, found once and passed on.
struct graph_facts {
    graph_ir graph;
    std::vector<dependence> depends;  ///< one for each node
    plan core;
    masking hides{};
    std::string decode_unsupported_reason;  ///< why no kernel is made for decode; empty if one is
    std::optional<gradient_plan> gradient;  ///< if the graph makes gradients
    std::vector<bool> of_query_heads;       ///< whether a node needs the query head, one for each
    std::vector<double> magnitudes;         ///< of integers, one for each node
    wrapping wraps{};                       ///< which integers may leave i32
    std::vector<bool> makes_infinity;       ///< makers_of_infinity, one for each node
};

/// Throws std::runtime_error, a sentence in the words of the language, for a graph that is not one kernel.
std::shared_ptr<const graph_facts> facts_of(const graph_ir& graph);

}  // namespace attune::generators::inline analysis
