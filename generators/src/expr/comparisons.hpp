#pragma once
#include "expr/pointwise.hpp"

namespace attune::generators::inline expr {

/// A condition: -infinity is below every number and equal to itself, and none holds of NaN but `!=`.
quantity compare(operation op, const quantity& a, const quantity& b);

}  // namespace attune::generators::inline expr
