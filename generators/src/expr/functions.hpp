#pragma once
#include "expr/pointwise.hpp"

/// Functions of reals as kernels compute them, by the table of operations.
namespace attune::generators::inline expr {

/// `at_most_zero`: whether x is known to be 0 or less.
quantity function_of_one(operation op, const quantity& x, bool at_most_zero);
quantity function_of_two(operation op, const quantity& x, const quantity& y);
quantity classified(operation op, const quantity& x);

/// The function alone, of a number that is not masked.
Halide::Expr function_value(operation op, const Halide::Expr& x);

}  // namespace attune::generators::inline expr
