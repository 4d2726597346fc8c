#pragma once
#include "analysis/mask_class.hpp"
#include "kernel/kernel_list.hpp"
#include "schedules/shape_bucket.hpp"

#include <cstddef>

namespace attune::generators {

/// What the cost model knows of a machine: of each level a typical core, so that builds do not depend on where they
/// run.
struct machine_model {
    double fmas_a_cycle, loads_a_cycle;  ///< vectors
    double fma_latency;                  ///< cycles
    std::size_t first_level_bytes, second_level_bytes;
    double second_level_rate, memory_rate;  ///< bytes a cycle, from the second level and from beyond it
};
machine_model machine_of(const level& isa);

/// Cycles of one core for a call, estimated: the slower of arithmetic, loads and latency in the register tiles; passes
/// over a tile of scores; what of it, of the keys and of the values does not stay in the caches; blocks visited for the
/// mask; padding. Its order is what counts: constants that no manual gives are fitted to all candidates' times of three
/// kernels on Zen 3 (tests/generators/exhaustive). Of a GPU: the instructions of all its visits to blocks of keys, and
/// how few warps there are to wait meanwhile; nothing of that is fitted to times.
double estimated_cycles(const kernel_request& request, masking hides, const call_shape& call);

}  // namespace attune::generators
