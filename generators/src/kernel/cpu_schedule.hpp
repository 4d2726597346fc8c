#pragma once
#include "analysis/mask_class.hpp"
#include "kernel/kernel_request.hpp"

namespace attune::generators::inline kernel {

/// The schedule on a CPU if nothing better was measured. Any depth >= 1.
cpu_prefill default_cpu_prefill(const level& isa, const depth_pair& depths, masking hides, int pairing = 1);
cpu_decode default_cpu_decode(const level& isa, masking hides);
/// Chunks of `tokens` tokens.
cpu_recurrence default_cpu_recurrence(const level& isa, int tokens);
/// The largest divisor of a whole that is at most `most`: as much of a product's rows or vectors as a tile has.
int part_of(int whole, int most);

}  // namespace attune::generators::inline kernel
