#pragma once
#include "golden.hpp"

namespace attune::testing {

/// Sizes of a call derived from a file.
struct derived_sizes {
    std::int64_t batches, heads_factor, queries, keys;
};

/// Another file of the same stem: its inputs resized along their declared axes (cyclically; extents of 1 that broadcast
/// stay; offsets of sequences stretched; a layer's widths as its heads), q, k and v, and a layer's sequences and
/// weights, drawn anew, outputs from the reference evaluator. Tolerances are those of f32 for scores of that size.
support::tensor_file derive(const support::tensor_file& file, const recipe& how, derived_sizes sizes, unsigned seed);

}  // namespace attune::testing
