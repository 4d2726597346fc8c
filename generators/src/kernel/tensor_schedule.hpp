#pragma once
#include "kernel/kernel_request.hpp"

#include <string>

namespace attune::generators::inline kernel {

/// Why a request has no kernel for calls of these shapes that multiplies by tensor cores, as the end of a sentence;
/// empty if it has one. The request's own schedule is ignored.
std::string no_tensor_cores_because(const kernel_request& request, shape_class shapes);

/// Whether tensor cores multiply queries and keys as codes of 8 bits, which the formula makes of both: sums are exact,
/// and the factors of rows multiply them.
bool tensor_cores_take_codes(const kernel_request& request);

/// Whether tasks that such a kernel spoils are made again. A pair that is hidden or behind the last key has the weight
/// 0, and 0 times a value that is not finite is NaN. Every formula has such pairs: a last block repeats the last key.
bool marks_tasks(const kernel_request& request);

/// The schedule of tasks that are made again, by threads that multiply by themselves.
gpu_prefill schedule_of_marked_tasks(const kernel_request& request);

/// The rule of products by warpgroups that a schedule breaks: "warps 4 or 8, got 6". Empty if it breaks none.
std::string not_for_warpgroups(const gpu_tensor_prefill& s);

/// The schedules if nothing better was measured.
gpu_tensor_prefill default_gpu_tensor_prefill(const kernel_request& request);
gpu_tensor_decode default_gpu_tensor_decode(const kernel_request& request);

/// The blocks of threads of such a schedule; in decode those of one split.
gpu_tensor_prefill tensor_blocks_of(const schedule& s);

/// Whether queries lie in shared memory. No two threads share their words, but those of several tiles, and of long rows
/// of f32, are too many for registers.
bool queries_in_memory(const gpu_tensor_prefill& s, const kernel_request& request);

/// The rows of q, k, v and the outputs of such a kernel begin at a multiple of this many bytes: those of one load.
inline constexpr int tensor_row_alignment = 16;

/// An estimate of the bytes of shared memory of a block of threads.
int estimated_shared_memory(const gpu_tensor_prefill& s, const kernel_request& request);

}  // namespace attune::generators::inline kernel
