#pragma once
#include <cstddef>

/// Scratch memory of kernels. Every thread keeps what its kernels gave back, so that the second call of a kind
/// allocates nothing. Blocks are aligned to 128 bytes and may be read 128 bytes beyond either end, as Halide asks for.
namespace attune::detail {

void* take_scratch(std::size_t bytes) noexcept;  ///< null where there is no memory
void give_scratch(void* block) noexcept;         ///< on any thread
std::size_t bytes_of_scratch(const void* block) noexcept;

}  // namespace attune::detail
