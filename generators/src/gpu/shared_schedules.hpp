#pragma once
#include "stages/epilogue.hpp"
#include "stages/merged_splits.hpp"
#include "stages/projections.hpp"
#include "stages/split_ranges.hpp"

namespace attune::generators::inline gpu {

// The loops of a GPU for stages that prefill and decode share.

/// What callers promise of the buffers that rows and outputs are written to.
void bind_outputs(epilogue& its, const kernel_frame& f);

/// Decode: merges the splits of a row, a block of threads each. Returns the level of a row, at which the state is
/// computed.
Halide::LoopLevel schedule_merged_rows_on_gpu(epilogue& its, const kernel_frame& f);

/// What each split left of the row: depths in the threads of a warp, splits in turn in several warps.
void schedule_merge(merged_splits& its, const Halide::LoopLevel& row);

/// Of a task's split, the blocks: decided on at a level of its loop, so many together. `across`: threads of the block
/// that differ in x.
void schedule_ranges(split_ranges& its, const Halide::LoopLevel& task, const Halide::LoopLevel& decided, int together,
                     int across);

/// What is known of blocks of keys, (key block, query block, key head, batch), if it asks all heads of a group: a
/// kernel of its own, before.
void schedule_of_group(Halide::Func kinds);

void schedule_tensor_on_gpu(computed_tensor& its, const kernel_frame& f);

}  // namespace attune::generators::inline gpu
