#pragma once
#include "expr/pointwise.hpp"

/// Functions of reals as kernels compute them, by the table of operations.
namespace attune::generators::inline expr {

struct known_of_argument {
    bool at_most_zero{};
    bool pole{};  ///< a logarithm's argument may be its pole, where it is -infinity
};
quantity function_of_one(operation op, const quantity& x, const known_of_argument& known);
quantity function_of_two(operation op, const quantity& x, const quantity& y);
quantity classified(operation op, const quantity& x);

/// The function alone, of a number that is not masked.
Halide::Expr function_value(operation op, const Halide::Expr& x);

}  // namespace attune::generators::inline expr
