#pragma once
#include <attune/generators/kernel_request.hpp>
#include <attune/generators/level.hpp>

#include <stdexcept>
#include <string_view>

namespace attune::generators {

/// GPUs have no vectors that a schedule could speak of: threads are what lanes are elsewhere, and `lanes` is 1.
inline bool is_device(const level& target) { return target.lanes == 1; }
inline bool on_device(const kernel_request& request) { return request.schedule.lanes == 1; }

/// Bytes that every device of a kind gives a block of threads: OpenCL's commonly 48 KB, CUDA's of compute capability 8.0 and later 99 KB to who asks, Vulkan's
/// 32 KB of nearly all (the least that may be is 16 KB).
constexpr int most_shared_memory(std::string_view device) { return (device == "cuda" ? 99 : device == "vulkan" ? 32 : 48) << 10; }
inline int most_shared_memory(const level& target) { return most_shared_memory(target.name); }

/// A kernel that needs more shared memory than there is.
struct no_room : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// What is used on a GPU where nothing better was measured: a thread has query_tile queries, with key_tile keys while scores are made, and with `chunk` value
/// depths while values are weighed. Of the request, all but its schedule counts: what a formula keeps in shared memory takes room from the blocks.
schedule default_device_schedule(const kernel_request& request, const level& target);

/// The same for few queries: eight threads share a key, of which each takes key_tile for query_tile rows; then a thread has `chunk` value depths of the same rows, and
/// asks for the values of value_tile keys at a time.
schedule default_device_decode_schedule(const kernel_request& request, const level& target);
inline constexpr int device_threads_a_key = 8;

/// Pairs of a query and a key that a block may have at most where nothing else is asked for. Where each has sums of its own, more loops in one kernel take a device's compiler minutes.
int most_pairs_of_block(const listing& graph);

/// Threads of a block under a schedule, and about how many bytes of shared memory it has: what a kernel has is known once it is compiled.
int device_threads(const schedule& s, const depth_pair& depths);
int estimated_shared_memory(const kernel_request& request);

}  // namespace attune::generators
