#pragma once
#include "stages/epilogue.hpp"
#include "stages/projections.hpp"

namespace attune::generators::inline gpu {

// The loops of a GPU for stages that prefill and decode share.

/// What callers promise of the buffers that rows and outputs are written to.
void bind_outputs(epilogue& its, const kernel_frame& f);

/// Decode: merges the splits of a row, a block of threads each. Returns the level of a row, at which the state is
/// computed.
Halide::LoopLevel schedule_merged_rows_on_gpu(epilogue& its, const kernel_frame& f);

void schedule_tensor_on_gpu(computed_tensor& its, const kernel_frame& f);

}  // namespace attune::generators::inline gpu
