#pragma once
#include "kernel/kernel_request.hpp"
#include "kernel/level.hpp"

#include <stdexcept>
#include <string_view>

namespace attune::generators::inline kernel {

/// Bytes that every device of a kind gives a block of threads: OpenCL commonly 48 KB, CUDA of compute capability 8.0
/// and later 99 KB on request, Vulkan 32 KB on nearly all devices (its least is 16 KB).
constexpr int most_shared_memory(std::string_view device) {
    return (device == "cuda" ? 99 : device == "vulkan" ? 32 : 48) << 10;
}
inline int most_shared_memory(const level& target) { return most_shared_memory(target.called()); }

/// Thrown for a kernel that needs more shared memory than there is.
struct no_room : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace attune::generators::inline kernel
