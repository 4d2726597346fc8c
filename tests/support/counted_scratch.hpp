#pragma once
#include <cstddef>

namespace attune::testing {

/// Bytes of scratch that this program's kernels took from the system until now. For programs that compile
/// counted_scratch.cpp: it defines aligned_alloc, so no library has it.
std::size_t scratch_taken();

}  // namespace attune::testing
