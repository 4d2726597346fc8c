#pragma once
#include "formula_case.hpp"

namespace fuzz {

/// Calls of a shard's kernel for parts of the queries and keys, drawn from the case's seed, against the whole graph.
outcome outcome_of_shards(const formula_case& it, const attune::testing::drawn_graph& shard,
                          const attune::kernel_table& table, const attune::generators::element_types& types);

}  // namespace fuzz
