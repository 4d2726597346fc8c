#pragma once
#include "stages/pair_block.hpp"

namespace attune::generators::inline cpu {

/// The loops in which blocks of pairs are made: over tasks, heads of a group, blocks of queries, blocks of keys.
struct pair_loops {
    Halide::LoopLevel task, group, block, key_block;
};
void schedule_pairs(const cpu_gradient& cut, pair_block& its, const kernel_frame& f, const pair_loops& at);

}  // namespace attune::generators::inline cpu
