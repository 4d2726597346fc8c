#pragma once
#include "kernel/kernel_request.hpp"

#include <string>

namespace attune::generators::inline kernel {

/// Why a request has no kernel that multiplies by tensor cores, as the end of a sentence; empty if it has one. Of the
/// request, all but its schedule counts.
std::string no_tensor_cores_because(const kernel_request& request);

/// Whether a task that such a kernel spoils is made again: the weight 0 of a pair that is hidden, or behind the last
/// key, makes NaN of a value that is not finite. No formula is free of such pairs: a last block repeats the last key.
bool marks_tasks(const kernel_request& request);

/// How the tasks are cut that are made again, by threads that multiply by themselves.
gpu_prefill schedule_of_marked_tasks(const kernel_request& request);

/// What a schedule has to be where warpgroups make products, and is not: "warps 4 or 8, got 6". Empty if it is.
std::string not_for_warpgroups(const gpu_tensor_prefill& s);

/// What is used where nothing better was measured.
gpu_tensor_prefill default_gpu_tensor_prefill(const kernel_request& request);
gpu_tensor_decode default_gpu_tensor_decode(const kernel_request& request);

/// The blocks of threads of such a schedule, of decode those of one split.
gpu_tensor_prefill tensor_blocks_of(const schedule& s);

/// Bytes that the rows of q, k, v and the outputs of such a kernel begin at a multiple of: what one load fetches.
inline constexpr int tensor_row_alignment = 16;

/// About how many bytes of shared memory a block of threads has.
int estimated_shared_memory(const gpu_tensor_prefill& s, const kernel_request& request);

}  // namespace attune::generators::inline kernel
