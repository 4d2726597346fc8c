#pragma once
#include "gpu/remade_tasks.hpp"
#include "stages/kernel_stages.hpp"
#include "stages/tensor_state.hpp"

namespace attune::generators::inline gpu {

/// Makes loops of a GPU of a kernel's stages, whose products tensor cores make, and adds the passes that finish them.
/// `again` is null where no task is made once more.
void apply(const gpu_tensor_prefill& cut, kernel_stages& all, tensor_state* state, remade_tasks* again,
           Halide::Pipeline& attention);

}  // namespace attune::generators::inline gpu
