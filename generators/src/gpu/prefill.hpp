#pragma once
#include "stages/kernel_stages.hpp"
#include "stages/prefill_state.hpp"

namespace attune::generators::inline gpu {

/// Makes loops of a GPU of a kernel's stages, and adds the passes that finish them. `state` may be null.
void apply(const gpu_prefill& cut, kernel_stages& all, prefill_state* state, Halide::Pipeline& attention);

/// The same of a definition of some outputs: the first one, or an update, of whose rows and state all that is computed
/// for it is made.
void schedule_task(const gpu_prefill& cut, const kernel_frame& f, Halide::Func outputs, int definition, epilogue& rows,
                   prefill_state* state);
/// The passes that finish the pass over the keys.
void add_passes(prefill_state& state, Halide::Pipeline& attention);

}  // namespace attune::generators::inline gpu
