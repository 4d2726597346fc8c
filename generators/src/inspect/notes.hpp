#pragma once
#include "emit/registry.hpp"

#include <vector>

namespace attune::generators::inline inspect {

/// Notes on each variant for `explain`, and for attune::explain by the kernel table: the effects of the mask's parts on
/// the blocks of its first kernel, and the conventions that hold.
std::vector<variant_notes> notes_of(std::span<const variant> variants, std::span<const listed_kernel> kernels);

}  // namespace attune::generators::inline inspect
