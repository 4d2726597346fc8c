#pragma once
#include "stages/precomputed.hpp"

namespace attune::generators::inline cpu {

/// Makes loops of a CPU of all that is computed before the first score.
void schedule_precomputed(precomputed_tensors& its, const kernel_request& request);

}  // namespace attune::generators::inline cpu
