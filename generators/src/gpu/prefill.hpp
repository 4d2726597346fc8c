#pragma once
#include "stages/kernel_stages.hpp"
#include "stages/prefill_state.hpp"

namespace attune::generators::inline gpu {

/// Schedules a kernel's stages for a GPU, and adds the passes that finish their loops. `state` may be null.
void apply(const gpu_prefill& cut, kernel_stages& all, prefill_state* state, Halide::Pipeline& attention);

/// Schedules one definition of some outputs, the first one or an update, with the rows and the state that are computed
/// for it.
void schedule_task(const gpu_prefill& cut, const kernel_frame& f, Halide::Func outputs, int definition, epilogue& rows,
                   prefill_state* state);
/// The passes that finish the pass over the keys.
void add_passes(prefill_state& state, Halide::Pipeline& attention);

}  // namespace attune::generators::inline gpu
