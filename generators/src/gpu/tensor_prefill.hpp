#pragma once
#include "gpu/remade_tasks.hpp"
#include "stages/kernel_stages.hpp"
#include "stages/tensor_state.hpp"

namespace attune::generators::inline gpu {

/// Schedules a kernel's stages, whose products tensor cores make, for a GPU, and adds the passes that finish their
/// loops. `again` is null if no task is made again.
void apply(const gpu_tensor_prefill& cut, kernel_stages& all, tensor_state* state, remade_tasks* again,
           Halide::Pipeline& attention);

}  // namespace attune::generators::inline gpu
