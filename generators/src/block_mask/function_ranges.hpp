#pragma once
#include "expr/interval.hpp"

#include <attune/ir/operations.hpp>

namespace attune::generators::inline block_mask {

/// What a function of reals makes of a range, and one of two.
interval function_range(operation op, const interval& x);
interval function_range(operation op, const interval& x, const interval& y);

}  // namespace attune::generators::inline block_mask
