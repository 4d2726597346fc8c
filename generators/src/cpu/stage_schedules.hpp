#pragma once
#include "passes/skip_blocks.hpp"
#include "passes/trim_tail_rows.hpp"
#include "stages/epilogue.hpp"
#include "stages/masked_values.hpp"
#include "stages/projections.hpp"
#include "stages/quadratic_outputs.hpp"
#include "stages/stored_tensor.hpp"
#include "stages/subblocks.hpp"
#include "stages/transposed_pairs.hpp"

#include <string>
#include <vector>

namespace attune::generators::inline cpu {

// The loops of a CPU for stages that prefill and decode share. `lanes`: f32 in a vector.

/// Puts the queries in lanes, or the value depths if the state has them there. Returns the loop level of a task, at
/// which the state is computed.
Halide::LoopLevel schedule_rows(epilogue& its, const kernel_frame& f, const row_state* state, int lanes);
/// Makes the loops over the queries of a block end with the last query: those of `state` and the rows' own.
void trim_rows(const epilogue& its, const kernel_frame& f, std::vector<row_loop> state, int lanes,
               Halide::Pipeline& pipeline);

void schedule_tensor(computed_tensor& its, const kernel_frame& f, int lanes);
void schedule_blocks(subblocks& its, const kernel_frame& f, int lanes, const Halide::LoopLevel& task,
                     bool once = false);

/// Schedules the stores as an output of its own. The calling thread stores few elements itself, since waking others
/// takes longer.
void schedule_stores(stored_tensor& its, const kernel_frame& f, int lanes);

/// Transposes a `tile` of queries and keys at a time.
void schedule_transposed(transposed_pairs& its, const kernel_frame& f, int lanes, const block_sizes& tile,
                         const Halide::LoopLevel& at, const Halide::LoopLevel& storage);

/// Computes the scan at a block of keys.
void schedule_scan(non_finite& its, const Halide::Var& lane, int lanes, const Halide::RDom& each,
                   const Halide::LoopLevel& block);
void schedule_masked_values(masked_values& its, const Halide::LoopLevel& block);

void schedule_pairs(const cpu_prefill& cut, quadratic_outputs& its, const kernel_frame& f);

/// Makes a loop over blocks skip those whose entry in the table is 0; loops inside it are clipped to visited
/// sub-blocks.
void skip_empty_blocks(const stage_loop& loop, const Halide::Func& table, std::vector<clipped_loop> clipped,
                       const kernel_frame& f, Halide::Pipeline& pipeline);

}  // namespace attune::generators::inline cpu
