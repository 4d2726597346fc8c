#pragma once
#include "kernel/kernel_request.hpp"

namespace attune::generators::inline kernel {

/// The schedule of a gradient on a CPU if nothing better was measured.
cpu_gradient default_cpu_gradient(const kernel_request& request);

/// The same on a GPU.
gpu_gradient default_gpu_gradient(const kernel_request& request);

/// How the pass over one side of the pairs cuts its sums on a GPU: `across` threads have the channels of a row, each
/// `channels` of them, and `down` threads the positions, each `positions` of them.
struct side_threads {
    side_threads(const gpu_gradient& s, const depth_pair& depths, bool of_queries);
    int across{}, down{}, channels{}, positions{};
};
/// An estimate of the shared memory of a block of threads, in bytes.
int gradient_shared_memory(const gpu_gradient& s, const kernel_request& request);

/// How the sums of a gradient lie in memory on a CPU: in rows of whole vectors, as wide as the wider of both depths. A
/// row has the channels of a position. Sums over the keys that are one number for each query lie side by side instead,
/// if rows and blocks fit each other.
struct sum_layout {
    explicit sum_layout(const kernel_request& request);
    int width{}, block{}, tile{};

    bool is_flat(const gradient_sum& sum) const;
    /// Rows that a block of queries or keys has; whole tiles.
    int rows_of_block(const gradient_sum& sum) const;
};

}  // namespace attune::generators::inline kernel
