#pragma once
#include "analysis/gradient_plan.hpp"

#include <optional>

namespace attune::generators::inline analysis {

/// A term of a gradient that is a matrix product, such as one of weights that project queries, keys, values or outputs:
/// rows, one for each position, times a matrix over the channels; or channels of the rows times a matrix over the
/// positions. The product is placed.
struct gradient_product {
    int rows{};        ///< node: a sum, or a formula of sums; in a term without sums a formula of elements of tensors
    int channel{};     ///< the bound index that counts along a row, in graph_ir::indices
    bool of_values{};  ///< whether it counts the channels of values
    std::size_t lanes{};  ///< the index of gradient_term::over that counts the matrix's columns
    bool by_position{};   ///< the product has a row for each position; else for each channel
    dependence place{};   ///< the dependence of the place where it is added
};

/// Nothing for a term of another form.
std::optional<gradient_product> product_of(const graph_ir& graph, const std::vector<dependence>& depends,
                                           const gradient_plan& plan, const gradient_term& term);

}  // namespace attune::generators::inline analysis
