#pragma once
#include "analysis/mask_class.hpp"
#include "kernel/kernel_list.hpp"
#include "schedules/shape_bucket.hpp"

#include <cstddef>

namespace attune::generators::inline schedules {

/// A machine as the cost model knows it: a typical core for each level, so that builds do not depend on where they run.
struct machine_model {
    double fmas_a_cycle, loads_a_cycle;  ///< vectors
    double fma_latency;                  ///< cycles
    std::size_t first_level_bytes, second_level_bytes;
    double second_level_rate, memory_rate;  ///< bytes a cycle, from the second level and from beyond it
};
machine_model machine_of(const level& isa);

/// The estimated cycles of one core for a call: the slowest of arithmetic, loads and latency in the register tiles;
/// passes over a tile of scores; the parts of scores, keys and values that do not stay in the caches; the blocks that
/// the mask leaves; padding. Only the order of estimates matters. Constants that no manual gives are fitted to all
/// candidates' times of three kernels on Zen 3 (tests/generators/exhaustive). For a GPU: the instructions of all visits
/// to blocks of keys, and the latency that too few warps cannot hide; these are not fitted to times.
///
/// An estimate reads the schedule alone. Most of what a plan adds to it follows from the graph, so that all candidates
/// of a kernel share it; the constants stand for the rest.
double estimated_cycles(const kernel_request& request, masking hides, const call_shape& call);

}  // namespace attune::generators::inline schedules
