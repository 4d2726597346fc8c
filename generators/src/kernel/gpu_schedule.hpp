#pragma once
#include "kernel/kernel_request.hpp"

namespace attune::generators::inline kernel {

/// The schedule on a GPU if nothing better was measured: a thread has query_tile queries, with key_tile keys while
/// scores are made, and with `chunk` value depths while values are weighed. The request's own schedule is ignored; its
/// formula counts, since numbers that it keeps in shared memory take room from the blocks.
gpu_prefill default_gpu_prefill(const kernel_request& request);

/// The same for few queries. Eight threads share a key; each takes key_tile keys for query_tile rows. Then a thread has
/// `chunk` value depths of the same rows, and asks for the values of value_tile keys at a time.
gpu_decode default_gpu_decode(const kernel_request& request);
inline constexpr int gpu_threads_a_key = 8;

/// The most pairs of a query and a key that a block of a default schedule has. If each pair has sums of its own, more
/// loops in one kernel would take a device's compiler minutes.
int most_pairs_of_block(const graph_facts& facts);

/// Threads of a block under a schedule, and an estimate of its bytes of shared memory: the exact number is known once
/// the kernel is compiled.
int gpu_threads_of(const gpu_prefill& s, const depth_pair& depths);
int gpu_threads_of(const gpu_decode& s, const depth_pair& depths);
/// The estimate for a request under a GPU's schedule.
int estimated_shared_memory(const kernel_request& request);

/// Room behind a row in shared memory, so that a column's elements lie in different banks.
inline int padded(int extent) { return extent + 4; }
/// The same for values, which eight threads of four keys write side by side: keys lie a quarter of the banks apart.
inline int padded_values(int depths) {
    constexpr int banks = 32, apart = banks / 4;
    int row = (depths + apart - 1) / apart * apart;
    while (row % (2 * apart) != apart) row += apart;
    return row;
}

}  // namespace attune::generators::inline kernel
