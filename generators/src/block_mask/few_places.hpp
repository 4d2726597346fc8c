#pragma once
#include "expr/interval.hpp"
#include "expr/pointwise.hpp"

namespace attune::generators::inline block_mask {

/// The range of a condition, as 0 and 1, that has a range of its own at each of some places; any, unless `few` says
/// that these are all places.
interval condition_at_places(const interval& at_place, const Halide::RDom& each_place, const Halide::Expr& few);

/// The range of a number of that type over some places; any, unless `few` says that these are all places.
interval number_at_places(const quantity& at_place, const Halide::Type& type, const Halide::RDom& each_place,
                          const Halide::Expr& few);

}  // namespace attune::generators::inline block_mask
