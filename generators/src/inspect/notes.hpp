#pragma once
#include "emit/registry.hpp"

#include <vector>

namespace attune::generators::inline inspect {

/// Notes on each variant for `explain`, and for attune::explain by the kernel table: what the parts of the mask do for
/// the blocks of its first kernel, and which conventions hold.
std::vector<variant_notes> notes_of(std::span<const variant> variants, std::span<const listed_kernel> kernels);

}  // namespace attune::generators::inline inspect
