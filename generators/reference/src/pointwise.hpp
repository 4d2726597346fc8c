#pragma once
#include <attune/ir/integer_operations.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace attune::reference {

/// The value of one node for one query: a single number, or one a key (one a value channel for outputs). Reals are in
/// `real`; integers and conditions in `integer`. A real of -infinity means masked, wherever it came from.
struct column {
    std::vector<double> real;
    std::vector<std::int32_t> integer;
};

/// Real arithmetic in double. Masked numbers stay masked: -infinity in, -infinity out, whatever the other argument.
/// Exceptions: where() chooses, max() prefers the other, and exp, tanh and erf have their finite limits, as PyTorch's.
double real_operation(operation op, double x, double y);
double real_function(operation op, double x);

/// Evaluates a pointwise instruction; `kinds` are those of its arguments. Columns of one element stand for all. Returns
/// false if the operation is not pointwise. `of_gradient`: a masked pair adds exactly nothing, so a product with 0 is
/// 0, whatever the other factor is.
bool evaluate_pointwise(const instruction& node, std::span<const kind> kinds, std::span<const column* const> arguments,
                        column& result, bool of_gradient = false);

}  // namespace attune::reference
