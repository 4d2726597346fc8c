#pragma once
#include "stages/kernel_stages.hpp"
#include "stages/prefill_state.hpp"

namespace attune::generators::inline gpu {

/// Makes loops of a GPU of a kernel's stages, and adds the passes that finish them. `state` may be null.
void apply(const gpu_prefill& cut, kernel_stages& all, prefill_state* state, Halide::Pipeline& attention);

}  // namespace attune::generators::inline gpu
