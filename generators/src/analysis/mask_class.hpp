#pragma once
#include "analysis/mask_formula.hpp"

#include <cstdint>

namespace attune::generators::inline analysis {

/// How much of the scores a graph hides, as far as its formula shows.
enum class masking : std::uint8_t {
    none,
    some,
    window,  ///< all keys except some before the query: a constant number, at most 1024, or one that only the call
             ///< knows
};
masking masking_of(const graph_ir& graph, const std::vector<dependence>& depends, formula_reader reader);

}  // namespace attune::generators::inline analysis
