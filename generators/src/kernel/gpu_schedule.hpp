#pragma once
#include "kernel/kernel_request.hpp"

namespace attune::generators::inline kernel {

/// What is used on a GPU where nothing better was measured: a thread has query_tile queries, with key_tile keys while
/// scores are made, and with `chunk` value depths while values are weighed. Of the request, all but its schedule
/// counts: what a formula keeps in shared memory takes room from the blocks.
gpu_prefill default_gpu_prefill(const kernel_request& request);

/// The same for few queries: eight threads share a key, of which each takes key_tile for query_tile rows; then a thread
/// has `chunk` value depths of the same rows, and asks for the values of value_tile keys at a time.
gpu_decode default_gpu_decode(const kernel_request& request);
inline constexpr int gpu_threads_a_key = 8;

/// Pairs of a query and a key that a block may have at most where nothing else is asked for. Where each has sums of its
/// own, more loops in one kernel take a device's compiler minutes.
int most_pairs_of_block(const graph_facts& facts);

/// Threads of a block under a schedule, and about how many bytes of shared memory it has: what a kernel has is known
/// once it is compiled.
int gpu_threads_of(const gpu_prefill& s, const depth_pair& depths);
int gpu_threads_of(const gpu_decode& s, const depth_pair& depths);
/// Of a request under a GPU's schedule.
int estimated_shared_memory(const kernel_request& request);

/// Room behind a row in shared memory, so that a column's elements lie in different banks.
inline int padded(int extent) { return extent + 4; }
/// The same of values, which eight threads of four keys write side by side: keys lie a quarter of the banks apart.
inline int padded_values(int depths) {
    constexpr int banks = 32, apart = banks / 4;
    int row = (depths + apart - 1) / apart * apart;
    while (row % (2 * apart) != apart) row += apart;
    return row;
}

}  // namespace attune::generators::inline kernel
