#pragma once
#include "view.hpp"

#include <attune/reference/evaluate.hpp>

namespace attune::reference {

/// The numbers of a call.
struct sizes {
    std::int64_t batches = 1, heads = 1, key_heads = 1, queries = 1, keys = 1, depth = 0,
                 value_depth = 0;  // a depth of 0 is not known
};

/// The arguments of a call, by position in the graph's inputs.
struct bound_arguments {
    std::vector<view> views;  ///< empty for scalars
    std::vector<double> scalars;
    std::vector<std::int64_t> lengths;  ///< kv_lengths, empty if not given
    sizes size;                         ///< from the arguments' shapes; computed tensors may still replace the lengths
};

/// Throws std::invalid_argument if an argument is missing or of another rank.
bound_arguments bind(const graph_ir& graph, std::span<const argument> arguments, const options& how);

}  // namespace attune::reference
