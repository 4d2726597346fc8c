#pragma once
#include <attune/reference/evaluate.hpp>

namespace attune::reference {

/// The starts of a call whose queries are packed, or null: a graph may have an input of its own of that name.
const tensor* packed_by(const graph_ir& graph, std::span<const argument> arguments);

/// One evaluation for each sequence, one after another, so that what an earlier one stored is there for a later one.
results evaluate_packed(const graph_ir& graph, std::span<const argument> arguments, const tensor& starts,
                        const options& how);

}  // namespace attune::reference
