#pragma once
#include "stages/kernel_stages.hpp"
#include "stages/prefill_state.hpp"

namespace attune::generators {

/// Makes loops of a CPU of a kernel's stages, and adds the passes that finish them. `state` may be null.
void apply(const cpu_prefill& cut, kernel_stages& all, prefill_state* state, Halide::Pipeline& attention);

}  // namespace attune::generators
