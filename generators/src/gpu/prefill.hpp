#pragma once
#include "stages/kernel_stages.hpp"
#include "stages/prefill_state.hpp"

#include <vector>

namespace attune::generators::inline gpu {

/// Schedules a kernel's stages for a GPU, and adds the passes that finish their loops. A block of threads makes one
/// softmax after the other, each over its own blocks of keys; there may be none.
void apply(const gpu_prefill& cut, kernel_stages& all, const std::vector<pass_over_keys<prefill_state>>& softmaxes,
           Halide::Pipeline& attention);

/// Schedules one definition of some outputs, the first one or an update, with the rows and the state that are computed
/// for it.
void schedule_task(const gpu_prefill& cut, const kernel_frame& f, Halide::Func outputs, int definition, epilogue& rows,
                   prefill_state* state);
/// The passes that finish the pass over the keys.
void add_passes(prefill_state& state, Halide::Pipeline& attention);

}  // namespace attune::generators::inline gpu
