#pragma once
#include "analysis/gradient_plan.hpp"

#include <optional>

namespace attune::generators::inline analysis {

/// A term of a gradient that is a matrix product, as where weights project queries, keys, values or outputs: rows, one
/// for each position, times a matrix over the channels; or channels of the rows times a matrix over the positions. What
/// comes out is placed.
struct gradient_product {
    int rows{};           ///< node: a sum, a formula of sums, or, of a term without sums, of elements of tensors
    int channel{};        ///< the bound index that counts along a row, in graph_ir::indices
    bool of_values{};     ///< whether it counts the channels of values
    std::size_t lanes{};  ///< the index of gradient_term::over that columns of the matrix are counted by
    bool by_position{};   ///< what comes out has a row for each position; else for each channel
    dependence place{};   ///< what decides where it is added
};

/// Nothing for a term of another form.
std::optional<gradient_product> product_of(const graph_ir& graph, const std::vector<dependence>& depends,
                                           const gradient_plan& plan, const gradient_term& term);

}  // namespace attune::generators::inline analysis
