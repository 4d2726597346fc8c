#pragma once
#include "expr/interval.hpp"

#include <attune/ir/operations.hpp>

namespace attune::generators::inline block_mask {

/// The range of a function of one real over a range, and of a function of two.
interval function_range(operation op, const interval& x);
interval function_range(operation op, const interval& x, const interval& y);

}  // namespace attune::generators::inline block_mask
