#pragma once
#include "stages/kernel_stages.hpp"
#include "stages/prefill_state.hpp"

namespace attune::generators::inline cpu {

/// Makes loops of a CPU of a kernel's stages, and adds the passes that finish them. There may be no cores.
void apply(const cpu_prefill& cut, kernel_stages& all, const std::vector<pass_over_keys<prefill_state>>& cores,
           Halide::Pipeline& attention);

}  // namespace attune::generators::inline cpu
