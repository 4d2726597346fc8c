#pragma once
#include "stages/epilogue.hpp"
#include "stages/merged_splits.hpp"
#include "stages/projections.hpp"
#include "stages/split_ranges.hpp"
#include "stages/stored_tensor.hpp"

namespace attune::generators::inline gpu {

// The loops of a GPU for stages that prefill and decode share.

/// Declares the callers' promises about the buffers of rows and outputs.
void bind_outputs(epilogue& its, const kernel_frame& f);

/// Decode: merges the splits of a row, a block of threads each. Returns the level of a row, at which the state is
/// computed.
Halide::LoopLevel schedule_merged_rows_on_gpu(epilogue& its, const kernel_frame& f);

/// Merges the results of the splits for a row: depths in the threads of a warp, splits in turn in several warps.
void schedule_merge(merged_splits& its, const Halide::LoopLevel& row);

/// Schedules the blocks of a task's split: `together` of them are decided on at the level `decided` of its loop.
/// `across`: threads of the block that differ in x.
void schedule_ranges(split_ranges& its, const Halide::LoopLevel& task, const Halide::LoopLevel& decided, int together,
                     int across);

/// Kinds of blocks of keys, (key block, query block, key head, batch). If they ask all heads of a group, a kernel of
/// its own makes them first.
void schedule_of_group(Halide::Func kinds);

void schedule_tensor_on_gpu(computed_tensor& its, const kernel_frame& f);

inline constexpr int threads_of_stored_row = 32;  ///< a warp, which also shares out a row's largest element

/// Schedules the stores as an output of its own: a launch for each, a block of threads for each row.
void schedule_stores_on_gpu(stored_tensor& its, const kernel_frame& f);

}  // namespace attune::generators::inline gpu
