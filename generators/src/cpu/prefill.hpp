#pragma once
#include "stages/kernel_stages.hpp"
#include "stages/prefill_state.hpp"

namespace attune::generators::inline cpu {

/// The pass over the keys for one attention core.
struct prefill_core {
    prefill_state& state;
    const kernel_frame& frame;
};

/// Makes loops of a CPU of a kernel's stages, and adds the passes that finish them. There may be no cores.
void apply(const cpu_prefill& cut, kernel_stages& all, const std::vector<prefill_core>& cores,
           Halide::Pipeline& attention);

}  // namespace attune::generators::inline cpu
