#pragma once
#include "analysis/gradient_plan.hpp"

#include <optional>

namespace attune::generators {

/// A term of a gradient that is a matrix product, as where weights project queries, keys or values: rows of a sum times
/// a matrix over the channels, or channels of a sum times a matrix over the positions. What comes out is placed.
struct gradient_product {
    std::size_t lanes{};  ///< the index of gradient_term::over that columns of the matrix are counted by
    bool by_position{};   ///< what comes out has a row for each position; else for each channel
    dependence place;     ///< what decides where it is added
};

/// Nothing for a term of another form.
std::optional<gradient_product> product_of(const graph_ir& graph, const std::vector<dependence>& depends,
                                           const gradient_plan& plan, const gradient_term& term);

}  // namespace attune::generators
