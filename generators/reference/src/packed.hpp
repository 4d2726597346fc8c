#pragma once
#include <attune/reference/evaluate.hpp>

namespace attune::reference {

/// The starts of a call whose queries are packed, or null: a graph may have an input of its own of that name.
const tensor* packed_by(const graph_ir& graph, std::span<const argument> arguments);

/// The stores of all sequences, then an evaluation for each.
results evaluate_packed(const graph_ir& graph, std::span<const argument> arguments, const tensor& starts,
                        const options& how);

}  // namespace attune::reference
